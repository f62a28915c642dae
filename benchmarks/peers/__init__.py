"""Other systems that keep the chain of `benchmarks.live.contender`, one package each."""
