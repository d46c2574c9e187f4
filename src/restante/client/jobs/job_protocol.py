"""The calls about jobs as dialogues with a hub over HTTP."""

from __future__ import annotations

import msgspec

from restante.calls.call import query_of
from restante.calls.jobs import DeleteJob, ListJobs, ListRuns, ReadJob, ReadRun, ReportJob
from restante.client.transport.address import segment
from restante.client.transport.exchange import Dialogue, HttpRequest
from restante.client.transport.http_answers import value_of
from restante.client.transport.options import Terms
from restante.client.transport.requests import WITH_JSON, Dialogues, done, read, said
from restante.model.jobs.job import check_run
from restante.model.jobs.job_answers import JobPage, JobRun, JobRunPage, JobStatus


def report_job(terms: Terms, call: ReportJob) -> Dialogue[JobStatus]:
    body = msgspec.json.encode(said(call, without=("job",)))
    request = HttpRequest("PUT", _path(call.job), terms.timeout, headers=WITH_JSON, body=body)
    return value_of((yield from done(terms, request, 200)), JobStatus, terms.address)


def list_jobs(terms: Terms, call: ListJobs) -> Dialogue[JobPage]:
    return (yield from read(terms, "/v1/jobs", JobPage, query_of(call)))


def read_job(terms: Terms, call: ReadJob) -> Dialogue[JobStatus]:
    return (yield from read(terms, _path(call.job), JobStatus))


def list_runs(terms: Terms, call: ListRuns) -> Dialogue[JobRunPage]:
    return (yield from read(terms, f"{_path(call.job)}/runs", JobRunPage, query_of(call)))


def read_run(terms: Terms, call: ReadRun) -> Dialogue[JobRun]:
    return (yield from read(terms, f"{_path(call.job)}/runs/{check_run(call.run)}", JobRun))


def delete_job(terms: Terms, call: DeleteJob) -> Dialogue[None]:
    yield from done(terms, HttpRequest("DELETE", _path(call.job), terms.timeout), 204)


def _path(job: str) -> str:
    return f"/v1/jobs/{segment(job, 'job')}"


DIALOGUES: Dialogues = {
    ReportJob: report_job,
    ListJobs: list_jobs,
    ReadJob: read_job,
    ListRuns: list_runs,
    ReadRun: read_run,
    DeleteJob: delete_job,
}
