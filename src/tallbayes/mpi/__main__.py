"""`mpiexec -n 4 python -m tallbayes.mpi` is the command line, whose fits are made by all ranks."""

from tallbayes.mpi import command_line

if __name__ == "__main__":
    command_line()
