"""The results as a table that one reads on a terminal."""

from __future__ import annotations

from typing import Any

OURS = "realm_core"
INDEX_TARGET, ANSWER_TARGET, TRAINING_TARGET = 1.5, 2.0, 2.5


def table(results: dict[str, Any]) -> str:
    """All figures of a run; medians, in brackets the lowest and the highest round."""
    machine = results["machine"]
    lines = [
        "",
        f"{machine['system']}, {machine['processor'] or 'processor unknown'}, {machine['cores']} cores, "
        f"{machine['threads']} threads each side, {machine['capability']} ({' '.join(machine['flags'])})",
        f"torch {machine['versions']['torch']}; "
        + ", ".join(f"{name} {version}" for name, version in results["versions_theirs"].items() if name != "torch"),
    ]
    if results["quick"]:
        lines.append("A quick run: it shows that everything works; the figures mean nothing.")
    lines += ["", "MATRIX PEAK, GFLOP/s       large square   the encoder's shapes"]
    lines += [
        f"  {dtype:<22} {rate['large_gflops']:>14.0f} {rate['encoder_shapes_gflops']:>22.0f}"
        for dtype, rate in results["matrix_rates"].items()
    ]
    lines += [*_indexing(results["indexing"]), *_answering(results["answering"])]
    lines += [*_pretraining(results["pretraining"]), *_any_size(results["any_size"]), *_web(results["web"])]
    return "\n".join(lines)


def _indexing(index: dict[str, Any]) -> list[str]:
    lines = [
        "",
        f"BUILDING AN INDEX  {index['blocks']} blocks, {index['wordpieces']} wordpieces "
        f"(theirs {index['wordpieces_theirs']}), {index['encoder_gflop']:.0f} GFLOP, {index['rounds']} rounds",
        f"  {'':<32} {'dtype':<9} {'blocks/s':<19} {'wordpieces/s':>12}  share of peak",
    ]
    for name, figures in index["contestants"].items():
        lines.append(
            f"  {name:<32} {figures['dtype']:<9} {_range(figures['blocks_per_s'], '.1f'):<19} "
            f"{figures['wordpieces_per_s']['median']:>12.0f}  {figures['share_of_peak']['median']:.0%}"
        )
    return [*lines, *_ratios(index, INDEX_TARGET)]


def _answering(answers: dict[str, Any]) -> list[str]:
    lines = [
        "",
        f"ANSWERING  k = {answers['k']}, {answers['questions']} questions, {answers['rounds']} rounds; wordpieces read "
        f"for each: {answers['wordpieces_per_question']:.0f} (theirs {answers['wordpieces_per_question_theirs']:.0f})",
        f"  {'':<32} {'dtype':<9} {'median ms':<25} {'p50':>7} {'p95':>7}",
    ]
    for name, figures in answers["contestants"].items():
        lines.append(
            f"  {name:<32} {figures['dtype']:<9} {_range(figures['median_ms'], '.1f'):<25} "
            f"{figures['p50_ms']:>7.1f} {figures['p95_ms']:>7.1f}"
        )
    lines += _ratios(answers, ANSWER_TARGET)
    lines.append(
        f"    ours as shipped, theirs in its fastest precision: {_range(answers['ratio_theirs_fastest'], '.2f')}"
    )
    phases = ", ".join(f"{phase} {spent_ms:.1f}" for phase, spent_ms in answers["phases_ms"].items())
    lines.append(f"    where our milliseconds go: {phases}")
    together = answers["together"]
    lines.append(f"    {together['askers']} askers at once: {_range(together['questions_per_s'], '.1f')} questions/s")
    return lines


def _pretraining(training: dict[str, Any]) -> list[str]:
    lines = [
        "",
        f"PRE-TRAINING  k = {training['k']}, {training['steps']} steps of {training['sentences']} sequences, "
        f"{training['wordpieces']} wordpieces (theirs {training['wordpieces_theirs']}), {training['gflop']:.0f} GFLOP "
        f"forward and backward, {training['rounds']} rounds",
        f"  {'':<32} {'dtype':<9} {'sequences/s':<22} share of peak",
    ]
    for name, figures in training["contestants"].items():
        lines.append(
            f"  {name:<32} {figures['dtype']:<9} {_range(figures['sequences_per_s'], '.2f'):<22} "
            f"{figures['share_of_peak']['median']:.0%}"
        )
    lines += _ratios(training, TRAINING_TARGET)
    refresh = training["refresh"]
    return [
        *lines,
        f"    a builder of indexes embeds {_range(refresh['builder_blocks_per_s'], '.1f')} blocks/s",
        f"    a trainer alone: {_range(refresh['trainer_alone_sequences_per_s'], '.2f')} sequences/s; beside a builder "
        f"on the same machine: {_range(refresh['trainer_beside_sequences_per_s'], '.2f')}",
    ]


def _any_size(found: dict[str, Any]) -> list[str]:
    return [
        "",
        f"APPROXIMATE SEARCH  {found['search']}; {found['probes']} of {found['lists']} lists",
        f"  recall@{found['k']} {found['recall']:.3f}; p50 {found['p50_ms']:.1f} ms, "
        f"p95 {found['p95_ms']:.1f} ms; processor time p50 {found['processor']['p50_ms']:.1f} ms",
        f"  built in {found['build_s']:.0f} s; {found['bytes']['index'] / 2**20:.0f} MiB beside "
        f"{found['bytes']['vectors'] / 2**20:.0f} MiB of vectors; {found['resident_mib']:.0f} MiB resident",
    ]


def _web(server: dict[str, Any]) -> list[str]:
    lines = [
        "",
        f"WEB SERVER  {server['server']}",
        f"  POST /api/v1/ask: p50 {server['p50_ms']:.1f} ms, p95 {server['p95_ms']:.1f} ms",
    ]
    for when, memory in server["memory_mib"].items():
        if memory is None:
            lines.append(f"  memory, {when.replace('_', ' ')}: not known on this system")
        else:
            lines.append(
                f"  memory, {when.replace('_', ' ')}: {memory['answering_process']:.0f} MiB resident "
                f"(highest {memory['answering_process_highest']:.0f}); all processes {memory['all_processes']:.0f} MiB"
            )
    return lines


def _ratios(figures: dict[str, Any], target: float) -> list[str]:
    """Same precision against same precision first, then each side as it is shipped."""
    contestants = figures["contestants"]
    ours = contestants[OURS]
    theirs = next(own for name, own in contestants.items() if not name.startswith(OURS))
    return [
        *(
            f"  → both in {dtype}: {_range(ratio, '.2f')} times as fast"
            for dtype, ratio in figures["ratio_same_dtype"].items()
        ),
        f"    as shipped, ours in {ours['dtype']}, theirs in {theirs['dtype']}: {_range(figures['ratio'], '.2f')} "
        f"(target {target})",
    ]


def _range(figures: dict[str, float], form: str) -> str:
    return f"{figures['median']:{form}} ({figures['low']:{form}}–{figures['high']:{form}})"
