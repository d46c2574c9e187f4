"""Jobs and their runs, described."""

from __future__ import annotations

from restante.calls.jobs import ListJobs, ListRuns
from restante.limits import JOB_CHARACTERS_MAX, JOB_RUN_NUMBER_MAX, JOB_RUNS_KEPT, JOBS_KEPT_MAX, JOBS_OF_OWNER_MAX
from restante.server.openapi.parts import Answer, Operation, Parameter, QueryText, Subject, json_answer, json_body
from restante.server.openapi.places import LIMIT, READING, WRITING, after_text, query
from restante.server.openapi.schemas import url_text

RUN_NUMBER = 1_896_091_200_000_000
_JOB = "/v1/jobs/{job}"
_NAME = Parameter(
    name="job",
    where="path",
    text="The name of a job, percent-encoded.",
    schema=url_text(JOB_CHARACTERS_MAX, "1 to 64 characters, not blank, not `.` or `..`, no control characters."),
    example="nightly-run",
)
_RUN = Parameter(
    name="run",
    where="path",
    text="The number of a run.",
    schema={"type": "integer", "format": "int64", "minimum": 0, "maximum": JOB_RUN_NUMBER_MAX},
    example=RUN_NUMBER,
)

JOBS = Operation(
    method="GET",
    path="/v1/jobs",
    name="listJobs",
    summary="List jobs",
    text="By name, each with its last run and its next turn. None, if no job ever ran against this hub.",
    parameters=query(ListJobs, limit=LIMIT, after=after_text("bmlnaHRseS1ydW4AAA==")),
    answers=(json_answer(200, "A page.", "JobPage", "Cache-Control"),),
    problems=READING,
)
SHOW = Operation(
    method="GET",
    path=_JOB,
    name="showJob",
    summary="Show a job",
    text="When it runs, and its last run.",
    parameters=(_NAME,),
    answers=(json_answer(200, "The job.", "JobStatus", "Cache-Control"),),
    problems=("job_unknown", *READING),
)
REPORT = Operation(
    method="PUT",
    path=_JOB,
    name="reportJob",
    summary="Report a run of a job",
    text=f"""
Says when a job runs, and what became of one of its runs. A report of a run again replaces the one before; a run that has
ended stays ended. So a report may be repeated, or come late. The last {JOB_RUNS_KEPT} runs of a job are kept.

The `run` is a number that ascends from run to run. Programs of Restante take the microseconds since 1970 at which it
began. `next_at` is when the next turn is; left out, there is none.
""",
    parameters=(_NAME,),
    bodies=(json_body("ReportJobBody"),),
    body_required=False,
    answers=(json_answer(200, "The job as it is known now.", "JobStatus", "Cache-Control"),),
    problems=("body_too_large", "unsupported_media_type", *WRITING),
)
RUNS = Operation(
    method="GET",
    path=_JOB + "/runs",
    name="listRuns",
    summary="List runs of a job",
    text="The newest first, without their tables.",
    parameters=(
        _NAME,
        *query(ListRuns, limit=LIMIT, after=QueryText(text="The `next` of the page before.", example=RUN_NUMBER)),
    ),
    answers=(json_answer(200, "A page.", "JobRunPage", "Cache-Control"),),
    problems=("job_unknown", *READING),
)
RUN = Operation(
    method="GET",
    path=_JOB + "/runs/{run}",
    name="showRun",
    summary="Show a run of a job",
    text="How it ended, its figures, and its table if it has one: the first rows of a report.",
    parameters=(_NAME, _RUN),
    answers=(json_answer(200, "The run.", "JobRun", "Cache-Control"),),
    problems=("job_unknown", *READING),
)
FORGET = Operation(
    method="DELETE",
    path=_JOB,
    name="forgetJob",
    summary="Forget a job",
    text="Forgets the job and its runs, for one that is gone. If it runs once more, it is there again.",
    parameters=(_NAME,),
    answers=(Answer(status=204, text="Done."),),
    problems=("job_unknown", *WRITING),
)
SUBJECT = Subject(
    name="Jobs",
    text=f"""
Jobs run elsewhere: Spark's on a cluster, a script by a timer. They say what became of each run, and the hub keeps it, so
that operators see all in one place: `restante jobs runs`, and the console. `restante jobs run` and `restante jobs serve` do so
by themselves. The hub starts no job. It keeps at most {JOBS_KEPT_MAX:,} jobs, {JOBS_OF_OWNER_MAX:,} of one owner. A job
belongs to the owner of its reports, as batches do.
""",
    operations=(JOBS, SHOW, REPORT, RUNS, RUN, FORGET),
)
