"""What the VTC artifact measured: Llama-2-7b on an A10G with 24 GB, pool of 10,000.

Computed with ``metrics`` from the result files in https://github.com/Ying1123/VTC-artifact
(``fair_bench/*/all_results_*.jsonl``); FCFS, LCF, VTC, VTC(oracle) and
RPM(5) of the real trace are so in Table 2 of Sheng et al., OSDI 2024. Every file is one
run. Not the same workload as its suite have ``overload`` FCFS (600 s of arrivals),
``poisson_short_long_2`` FCFS (300 s) and ``overload-weighted`` with weights (client 0
at half its rate).
"""

from collections.abc import Mapping

from .metrics import Row


def _row(
    difference: tuple[float, float, float],
    tokens_per_s: float,
    rejected: int,
    light_ttft_s: tuple[float, float],
) -> Row:
    """Take largest, average and variance of the difference; median and 95 % of TTFT."""
    most, average, variance = difference
    median_s, high_s = light_ttft_s
    return Row(
        avg=average,
        max=most,
        var=variance,
        tokens_per_s=tokens_per_s,
        rejected=rejected,
        light_ttft_p50_s=median_s,
        light_ttft_p95_s=high_s,
    )


PUBLISHED: Mapping[str, Mapping[str, Row]] = {
    "overload": {
        "published_fcfs": _row((447.37, 439.00, 30.62), 875.6, 0, (485.05, 925.10)),
        "published_vtc": _row((192.88, 103.77, 6981.24), 893.2, 0, (123.80, 237.50)),
        "published_vtc_oracle_50": _row(
            (33.98, 12.54, 111.94), 904.2, 0, (125.15, 237.26)
        ),
        "published_vtc_oracle": _row((5.87, 0.51, 1.71), 895.0, 0, (127.02, 240.14)),
    },
    "overload-multi": {
        "published_fcfs": _row((247.88, 230.81, 1083.63), 874.9, 0, (254.04, 486.98)),
        "published_vtc": _row((322.16, 162.20, 5151.49), 875.2, 0, (147.05, 286.54)),
        "published_vtc_oracle_50": _row(
            (99.43, 66.32, 487.10), 875.5, 0, (150.65, 288.13)
        ),
        "published_vtc_oracle": _row((43.23, 36.34, 56.52), 875.2, 0, (153.43, 292.52)),
    },
    "overload-weighted": {
        "published_vtc": _row((586.90, 435.29, 18869.91), 886.4, 0, (148.28, 287.93)),
        "published_vtc_weighted": _row((1.12, 0.33, 0.04), 899.5, 0, (223.46, 430.03)),
    },
    "proportional": {
        "published_fcfs": _row((157.23, 145.32, 70.36), 856.4, 0, (94.53, 189.58)),
        "published_vtc": _row((25.72, 9.91, 41.48), 883.4, 0, (4.62, 9.90)),
    },
    "on_off_less": {
        "published_fcfs": _row((276.06, 115.84, 6774.44), 875.0, 0, (84.52, 166.86)),
        "published_vtc": _row((69.46, 56.08, 248.29), 877.3, 0, (2.67, 7.93)),
    },
    "on_off_overload": {
        "published_fcfs": _row(
            (1317.14, 433.48, 127849.30), 875.9, 0, (374.20, 724.72)
        ),
        "published_vtc": _row((222.74, 109.53, 4990.00), 879.3, 0, (75.75, 135.85)),
    },
    "poisson_short_long": {
        "published_fcfs": _row((354.87, 209.31, 8468.67), 1475.5, 0, (70.24, 125.12)),
        "published_vtc": _row((132.69, 33.82, 839.27), 1444.6, 0, (49.78, 76.36)),
    },
    "poisson_short_long_2": {
        "published_fcfs": _row(
            (1063.12, 693.26, 50766.27), 1923.1, 0, (241.95, 474.80)
        ),
        "published_vtc": _row((47.19, 13.67, 204.14), 1670.7, 0, (305.11, 571.59)),
    },
    "increase": {
        "published_fcfs": _row((89.83, 28.45, 839.56), 743.2, 0, (0.41, 39.24)),
        "published_vtc": _row((23.20, 6.50, 55.44), 743.9, 0, (0.26, 0.70)),
    },
    "dist_shift": {
        "published_lcf": _row((185.96, 114.31, 3331.89), 898.7, 0, (3.83, 8.43)),
        "published_vtc": _row((108.25, 33.45, 1095.86), 903.2, 0, (12.52, 40.45)),
    },
    "real": {
        "published_fcfs": _row((759.97, 433.53, 32112.00), 776.9, 0, (68.79, 122.44)),
        "published_lcf": _row((750.49, 323.82, 29088.90), 778.4, 0, (0.27, 4.91)),
        "published_vtc": _row((368.40, 251.66, 6549.16), 778.8, 0, (0.84, 4.37)),
        "published_vtc_predict": _row(
            (365.47, 240.33, 5321.62), 773.4, 0, (0.60, 9.23)
        ),
        "published_vtc_oracle": _row((329.46, 227.51, 4475.76), 780.6, 0, (1.85, 9.74)),
        "published_rpm5": _row((143.86, 83.58, 1020.46), 340.4, 919, (0.10, 0.46)),
        "published_rpm10": _row((217.65, 128.24, 2767.44), 531.9, 600, (0.11, 0.46)),
        "published_rpm15": _row((343.07, 161.06, 5188.79), 625.8, 447, (0.30, 9.82)),
        "published_rpm20": _row((446.76, 195.71, 7449.79), 694.4, 342, (2.07, 15.43)),
        "published_rpm30": _row((693.66, 309.45, 24221.31), 747.3, 176, (27.60, 59.15)),
    },
}
"""By suite and row."""
