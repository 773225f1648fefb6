"""Bad and odd inputs, made from a seed, and a judge of what comes of them: `python -m odd --seed 1 --cases 1500`.

Each must end in the right answer or in a clear error. `case.py` says what a case is, `catalogue.py` gathers those of
all kinds, a file each; `posterior.py` computes right answers from scratch, `judge.py` decides, `runner.py` survives
what hangs or crashes. A case runs alone by its name: `python -m odd --seed 1 --only "text: ? among"`.
"""
