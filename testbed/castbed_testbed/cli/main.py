"""All commands on one page. What they do is imported when they are called, so that `--help` stays quick."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

INTERRUPTED = 130

app = typer.Typer(
    name="castbed",
    help="Run protocols for ordered, reliable group communication, and check what they promise.",
    epilog="Start with: castbed run examples/two-questions.toml",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Experiment = Annotated[Path, typer.Argument(help="The experiment, a TOML file.", metavar="EXPERIMENT")]
RunDirectory = Annotated[Path, typer.Argument(help="A run directory, or its captures.", metavar="DIR")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of words.")]
Seed = Annotated[int | None, typer.Option(help="The seed: same seed, same run. Default: the experiment's.")]
Out = Annotated[Path | None, typer.Option(help="The run directory itself. Default: castbed-runs/NAME-SEED.")]
Variant = Annotated[str | None, typer.Option(help="The protocol's variant, for example published or repaired.")]


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"castbed {version('castbed')}")
        raise typer.Exit


@app.callback()
def _common(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None: ...


@app.command()
def run(
    experiment: Experiment,
    seed: Seed = None,
    out: Out = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="Change a key: --set faults.loss=0.1 (any number of times).", metavar="KEY=VALUE"),
    ] = None,
    json: Json = False,
    captures: Annotated[
        bool, typer.Option("--captures/--no-captures", help="Without captures: counters only, no verdicts, faster.")
    ] = True,
) -> None:
    """Run an experiment and check every property that its protocol guarantees.

    Exit code 0: all hold. 1: a property is violated, or a fault never took effect. 2: the experiment is wrong. 3: this
    machine lacks something.
    """
    from castbed_testbed.cli.running import run_command

    raise typer.Exit(run_command(experiment, seed, out, settings or [], json, captures))


@app.command()
def rerun(
    directory: Annotated[Path, typer.Argument(help="A run directory.", metavar="DIR")],
    out: Out = None,
    json: Json = False,
) -> None:
    """Repeat a run exactly, and say whether every capture came out byte for byte the same.

    The repetition goes to DIR-rerun unless --out says otherwise.
    """
    from castbed_testbed.cli.running import rerun_command

    raise typer.Exit(rerun_command(directory, out, json))


@app.command()
def check(
    directory: RunDirectory,
    properties: Annotated[
        list[str] | None,
        typer.Option("--property", help="Check this property instead of the guaranteed ones (any number of times)."),
    ] = None,
    json: Json = False,
) -> None:
    """Judge captures that exist: the properties that their protocol guarantees, or the ones you name."""
    from castbed_testbed.cli.running import check_command

    raise typer.Exit(check_command(directory, properties or None, json))


@app.command()
def sweep(
    file: Annotated[Path, typer.Argument(help="The sweep, a TOML file.", metavar="FILE")],
    out: Annotated[Path | None, typer.Option(help="The sweep's directory. Default: castbed-runs/sweep-NAME.")] = None,
    jobs: Annotated[int | None, typer.Option(help="How many runs at a time. Default: one per core.", min=1)] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Forget the results that are there.")] = False,
    master: Annotated[
        str | None, typer.Option(help="Run on the executors of this Spark master.", metavar="URL")
    ] = None,
    json: Json = False,
) -> None:
    """Run an experiment with many settings and seeds, on all cores. A sweep that was stopped goes on where it was.

    Exit code 0: all properties hold in all runs. 1: in some they do not, or one raised. 2: the sweep is wrong.
    """
    from castbed_testbed.cli.sweeping import sweep_command

    raise typer.Exit(sweep_command(file, out, jobs, fresh, json, master))


@app.command()
def evaluate(
    files: Annotated[list[Path], typer.Argument(help="Evaluations, TOML files, or folders of them.", metavar="FILE")],
    seeds: Annotated[
        int | None, typer.Option(help="So many seeds for every point. Default: the file's.", min=1)
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="The short version that the file describes.")] = False,
    jobs: Annotated[int | None, typer.Option(help="How many runs at a time. Default: one per core.", min=1)] = None,
    out: Annotated[
        Path | None, typer.Option(help="Where runs and figures go. Default: castbed-runs/evaluations.")
    ] = None,
    figures: Annotated[Path | None, typer.Option(help="Also write the plots into this folder.", metavar="DIR")] = None,
    page: Annotated[
        Path | None, typer.Option(help="Also put the tables into this Markdown page.", metavar="FILE")
    ] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Forget the results that are there.")] = False,
    json: Json = False,
) -> None:
    """Measure what a paper's tables and figures show, and put ours beside what is printed.

    An evaluation that was stopped goes on where it was. Exit code 0: all conditions of acceptance hold. 1: one does
    not, or a run raised. 2: the evaluation is wrong.
    """
    from castbed_testbed.cli.evaluating import Wanted, evaluate_command

    raise typer.Exit(evaluate_command(files, Wanted(seeds, quick, jobs, out, figures, page, fresh), json))


@app.command()
def report(
    runs: Annotated[
        list[Path] | None,
        typer.Argument(help="Run directories, or their captures. Default: castbed-runs/latest.", metavar="[RUN]..."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="The page. Default: report.html in the run; for several runs, here.")
    ] = None,
    tables: Annotated[
        bool | None,
        typer.Option(
            "--tables/--no-tables", help="Keep the tables (Parquet). Default: for one run, in its folder tables."
        ),
    ] = None,
    messages: Annotated[
        list[str] | None,
        typer.Option("--message", help="Have this message in the diagram (any number of times).", metavar="NAME"),
    ] = None,
    master: Annotated[
        str | None, typer.Option(help="A Spark master that does the work. Default: this machine.", metavar="URL")
    ] = None,
    json: Json = False,
) -> None:
    """Make one HTML page of one run, or of several side by side: verdicts, plots, diagrams. It needs Spark.

    Exit code 0: all properties hold. 1: one is violated. 3: this machine lacks Spark or Java.
    """
    from castbed_testbed.cli.reporting import report_command

    raise typer.Exit(report_command(runs or [], out, tables, messages or [], master, json))


@app.command()
def plugins(json: Json = False) -> None:
    """List everything that is installed: protocols, memberships, transports, checks, workloads, applications."""
    from castbed_testbed.cli.plugins import plugins_command

    raise typer.Exit(plugins_command(json))


@app.command()
def conform(
    protocol: Annotated[str, typer.Argument(help="The name of an installed protocol.", metavar="PROTOCOL")],
    variant: Variant = None,
    runs: Annotated[int, typer.Option(help="How many random runs.", min=1)] = 100,
    schedules: Annotated[
        int, typer.Option("--explore", help="How many schedules to explore after that; 0: none.", min=0)
    ] = 500,
    seed: Annotated[int, typer.Option(help="The seed of the first run.", min=0)] = 1,
    json: Json = False,
) -> None:
    """Test a protocol against its own declaration: many random runs with every fault that it claims to stand.

    Also: it is deterministic, its packets survive the wire, no malformed frame disturbs it, and a short exploration
    finds no schedule that breaks a promise.
    """
    from castbed_testbed.cli.conforming import conform_command

    raise typer.Exit(conform_command(protocol, variant, runs, schedules, seed, json))


@app.command()
def explore(
    protocol: Annotated[str, typer.Argument(help="The name of an installed protocol.", metavar="PROTOCOL")],
    variant: Variant = None,
    properties: Annotated[
        list[str] | None,
        typer.Option("--property", help="Search for this property instead of the guaranteed ones (any number)."),
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="Sizes, as in members=3,messages=5, or an experiment file.", metavar="SIZES|FILE")
    ] = None,
    budget: Annotated[str, typer.Option(help="A number of schedules, or a time like 300s.")] = "20000",
    jobs: Annotated[int | None, typer.Option(help="How many processes. Default: one per core.", min=1)] = None,
    seed: Annotated[int, typer.Option(help="Same seed and a budget in schedules: same report.", min=0)] = 1,
    strategy: Annotated[str, typer.Option(help="How to choose schedules; mix tries most ways.")] = "mix",
    without: Annotated[
        list[str] | None, typer.Option(help="A freedom of the model not to use, as in crash (any number).")
    ] = None,
    allow: Annotated[
        list[str] | None, typer.Option(help="A freedom to use although the model rules it out (any number).")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Where the scripts go. Default: castbed-runs/explore-PROTOCOL-VARIANT.")
    ] = None,
    record: Annotated[Path | None, typer.Option(help="Enter the result in this record.", metavar="FILE")] = None,
    json: Json = False,
) -> None:
    """Search the schedules that the protocol's model allows for one that breaks what it guarantees.

    Each kind of violation is shrunk to a script that `castbed run` plays again. Exit code 1: something was found.
    """
    from castbed_testbed.cli.exploring import explore_command

    raise typer.Exit(
        explore_command(
            protocol,
            variant,
            properties or [],
            model,
            budget,
            jobs,
            seed,
            strategy,
            without or [],
            allow or [],
            out,
            record,
            json,
        )
    )


@app.command()
def findings(
    corpus: Annotated[Path, typer.Argument(help="A folder of scripts.", metavar="CORPUS")],
    out: Annotated[Path, typer.Option(help="Where the pages go.")] = Path("findings"),
    figures: Annotated[Path | None, typer.Option(help="Where the pictures go. Default: OUT/figures.")] = None,
    explored: Annotated[
        Path | None, typer.Option(help="The record of explorations. Default: OUT/explored.json.", metavar="FILE")
    ] = None,
) -> None:
    """Write a page per protocol: what the scripts of a corpus show, and what was explored without a violation."""
    from castbed_testbed.cli.finding import findings_command

    raise typer.Exit(findings_command(corpus, out, figures, explored))


@app.command("new-plugin")
def new_plugin(
    name: Annotated[str, typer.Argument(help="Lower-case letters, digits and hyphens.", metavar="NAME")],
    directory: Annotated[Path | None, typer.Option("--out", help="Where to write it. Default: ./NAME.")] = None,
) -> None:
    """Write a complete plugin project with a small working protocol, whose tests pass at once."""
    from castbed_testbed.cli.plugins import new_plugin_command

    raise typer.Exit(new_plugin_command(name, directory))


@app.command()
def dissector(
    out: Annotated[Path | None, typer.Option(help="Write to this file. Default: stdout.")] = None,
) -> None:
    """Print the Wireshark dissector for captures of all installed protocols.

    Use it with: tshark -X lua_script:castbed.lua -r captures/A.pcapng
    """
    from castbed_testbed.cli.plugins import dissector_command

    raise typer.Exit(dissector_command(out))


@app.command()
def doctor(
    clean: Annotated[bool, typer.Option("--clean", help="Remove what killed runs left behind.")] = False,
    json: Json = False,
) -> None:
    """Look at this machine: what is there, what is missing, what each thing is for."""
    from castbed_testbed.cli.doctor import doctor_command

    raise typer.Exit(doctor_command(json, clean))


def main() -> None:
    """The `castbed` command; every error that Castbed raises on purpose becomes one sentence on stderr."""
    try:
        app()
    except KeyboardInterrupt:
        _say_interrupted()
        sys.exit(INTERRUPTED)
    except SystemExit as exit_:
        if exit_.code == INTERRUPTED:  # typer turns an interruption of a command into this
            _say_interrupted()
        raise
    except Exception as error:
        sys.exit(_said_on_purpose(error))


def _said_on_purpose(error: Exception) -> int:
    """One sentence and the exit code for what Castbed raises on purpose; anything else is a bug and goes on."""
    from castbed.errors import CastbedError

    if not isinstance(error, CastbedError):
        raise error
    print(f"castbed: {error}", file=sys.stderr)
    return error.exit_code


def _say_interrupted() -> None:
    print("castbed: interrupted", file=sys.stderr)
