"""Where in its job a lane begins: the draws of both tools over many seeds, jobs and lanes, compared by Kolmogorov–Smirnov's test."""

import hashlib
import types

import numpy
from scipy import stats


def ours(seed, job, lane):
    """As `fastreplay help scenario` defines it."""
    digest = hashlib.sha256(f"snapshot {seed} {job} {lane}\n".encode()).digest()
    return 0.25 + 0.5 * (int.from_bytes(digest[:8], "big") >> 11) / 2**53


def theirs(seed, job, lane):
    """By agentx-harness's own function, of a job that lasts from 0 to 1."""
    from aiperf.timing.trajectory_source import TrajectorySource

    source = types.SimpleNamespace(
        _random_seed=seed, _start_min_ratio=0.25, _start_max_ratio=0.75, _trace_time_bounds=lambda _: (0.0, 1.0),
        _snapshot_for=lambda _, at: types.SimpleNamespace(states=(), t_star_ms=at),
        _warn_if_live_delta_snapshot_needs_prior_responses=lambda *_: None)
    return TrajectorySource._build_timestamped_trajectory(source, job, lane).snapshot.t_star_ms


def compare(jobs, lanes, seeds):
    drawn = {name: numpy.array([draw(seed, job, lane) for seed in range(seeds) for lane, job in enumerate((jobs * lanes)[:lanes])])
             for name, draw in (("fastreplay", ours), ("agentx-harness", theirs))}
    even = stats.uniform(0.25, 0.5).cdf
    out = {name: {"n": len(d), "least": d.min(), "most": d.max(), "mean": d.mean(), "ks_d": (k := stats.kstest(d, even)).statistic, "ks_p": k.pvalue}
           for name, d in drawn.items()}
    both = stats.ks_2samp(*drawn.values())
    return out | {"both": {"ks_d": both.statistic, "ks_p": both.pvalue}}
