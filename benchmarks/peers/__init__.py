"""Other systems that keep the chain of `headrace.bench.contender`, one package each."""
