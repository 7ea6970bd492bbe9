"""Public traces as their publishers ship them: small excerpts made in their form."""

import gzip
import json
import re
import tarfile

import numpy as np
import pytest

from mfcp.errors import DataError
from mfcp.simulator.traces.reading import read_trace

HELIOS = """\
job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue
11,uA,vc1,1,1,1,COMPLETED,2020-06-09 18:41:01,2020-06-09 18:41:01,2020-06-09 18:51:01,600,0
12,uB,vc2,4,16,1,FAILED,2020-06-09 18:41:31,2020-06-09 18:42:01,2020-06-09 18:42:31,30,30
13,uB,vc2,0,4,1,COMPLETED,2020-06-09 18:42:00,2020-06-09 18:42:00,2020-06-09 18:42:10,10,0
14,uC,vc2,8,4,1,CANCELLED,2020-06-09 18:43:00,2020-06-09 18:43:00,2020-06-09 18:43:00,0,0
"""
SEREN = """\
job_id,user,node_num,gpu_num,cpu_num,type,state,submit_time,start_time,end_time,duration,queue,gpu_time
71,u1,1,8,128,Other,FAILED,2023-03-01 00:18:22+08:00,2023-03-01 00:18:54+08:00,2023-03-01 00:20:51+08:00,117,32,936.0
72,u1,1,8,128,Pretrain,COMPLETED,2023-02-28 16:18:52+00:00,2023-03-01 00:24:11+08:00,,2693,13,21544.0
73,u2,1,8,128,Eval,CANCELLED,2023-03-01 00:30:00+08:00,,,,,
"""
PHILLY = [
    {"status": "Pass", "vc": "v", "jobid": "app_1", "user": "u", "submitted_time": "2017-10-07 01:11:39", "attempts": [
        {"start_time": "2017-10-07 01:12:09", "end_time": "2017-10-07 01:13:09",
         "detail": [{"ip": "m1", "gpus": ["gpu0", "gpu1"]}, {"ip": "m2", "gpus": ["gpu0"]}]},
        {"start_time": "2017-10-07 02:00:00", "end_time": "2017-10-07 02:00:30",
         "detail": [{"ip": "m1", "gpus": ["gpu0", "gpu1", "gpu2"]}]}]},
    {"status": "Killed", "vc": "v", "jobid": "app_2", "user": "u", "submitted_time": "2017-10-07 01:11:40",
     "attempts": []},
    {"status": "Pass", "vc": "w", "jobid": "app_3", "user": "u", "submitted_time": "2017-10-07 01:11:29", "attempts": [
        {"start_time": "2017-10-07 01:12:09", "end_time": "2017-10-07 01:12:19",
         "detail": [{"ip": "m1", "gpus": ["gpu0"]}]}]},
    {"status": "Pass", "vc": "w", "jobid": "app_4", "user": "u", "submitted_time": "2017-10-07 01:11:29", "attempts": [
        {"start_time": "2017-10-07 01:12:09", "end_time": None, "detail": [{"ip": "m1", "gpus": ["gpu0"]}]}]},
]  # fmt: skip
PAI_TASKS = """\
a,ps,1.0,Terminated,110.0,200.0,600.0,29.3,,MISC
a,worker,2.0,Terminated,120.0,210.0,400.0,29.3,50.0,V100
b,tensorflow,3.0,Terminated,105.0,165.0,400.0,29.3,100.0,P100
c,tensorflow,1.0,Running,130.0,,400.0,29.3,100.0,P100
d,evaluator,1.0,Terminated,140.0,150.0,400.0,29.3,,
e,worker,1.0,Terminated,150.0,160.0,400.0,29.3,25.0,T4
"""
PAI_JOBS = """\
a,x1,u1,Terminated,100.0,210.0
b,x2,u2,Terminated,104.0,165.0
c,x3,u2,Running,129.0,
d,x4,u2,Terminated,140.0,150.0
e,x5,u2,Terminated,149.0,160.0
"""
PODS = """\
name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time
pod-0,88000,327680,8,1000,,Burstable,Succeeded,9437497,9437697,9437500
pod-1,4000,15258,1,220,,BE,Running,9437490,9437590,9437490
pod-2,4000,15258,0,0,,BE,Running,9437490,9437590,9437490
pod-3,4000,15258,1,1000,V100M16|V100M32,LS,Pending,9437490,9437590,
"""
DLRM = """\
instance_sn,role,app_name,cpu_request,cpu_limit,gpu_request,gpu_limit,rdma_request,rdma_limit,memory_request,\
memory_limit,disk_request,disk_limit,max_instance_per_node,creation_time,scheduled_time,deletion_time
instance_1,HN,app_0,12,12,1,1,25,25,120.0,120.0,680.0,800.0,8,,,
instance_2,CN,app_1,64,64,0,0,1,1,320.0,320.0,255.0,300.0,-1,14.0,14.0,50.0
instance_3,HN,app_0,12,12,1,1,25,25,120.0,120.0,680.0,800.0,8,10.0,12.0,72.0
instance_4,HN,app_0,12,12,1,1,25,25,120.0,120.0,680.0,800.0,8,20.0,22.0,
"""
ELASTIC = """\
job_id,submission_time,num_iteration,model_name,deadline,batch_size,num_gpu,duration
6b2d,16566,40000,bert,21347,64,4,4000
6b2e,16500,10,resnet50,16600,64,1,50
"""


SACCT = """\
JobID|JobName|User|Submit|Start|End|AllocTRES|ReqTRES
7|train, "large"|ua|2024-01-01T00:00:00|2024-01-01T00:01:00|2024-01-01T01:00:00|billing=8,cpu=8,gres/gpu=2,mem=9G|
7.batch|batch||2024-01-01T00:01:00|2024-01-01T00:01:00|2024-01-01T01:00:00|cpu=8,gres/gpu=2,mem=9G|
8_1|sweep|ub|2024-01-01T00:00:30|2024-01-01T00:00:40|2024-01-01T00:00:50|gres/gpu:a100=1,gres/gpu:h100=3,node=2|gres/gpu=4
8_[2-9]|sweep|ub|2024-01-01T00:00:30|Unknown|Unknown||gres/gpu=4
9|sweep|ub|2024-01-01T00:00:31|2024-01-01T00:00:31|Unknown|gres/gpu=1|
10|tests|ub|2024-01-01T00:00:32|2024-01-01T00:00:33|2024-01-01T00:00:34|cpu=1,mem=1G|
11|sweep|uc|2024-01-01T00:00:33|None|2024-01-01T00:00:34||gres/gpu=1
"""


def seconds_of(text):
    """As SLURM_TIME_FORMAT=%s prints it."""
    return re.sub(
        r"2024-01-01T(\d\d):(\d\d):(\d\d)", lambda at: str(int(at[1]) * 3600 + int(at[2]) * 60 + int(at[3])), text
    )


@pytest.mark.parametrize("name", ["jobs.psv", "jobs.txt", "jobs.psv.gz"])
@pytest.mark.parametrize("form", [str, seconds_of, lambda text: text.replace("\n", "|\n")], ids=["iso", "seconds", "p"])
def test_accounting_of_slurm(tmp_path, name, form):
    content = form(SACCT).encode()
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    trace = read_trace(tmp_path / name)
    jobs = trace.jobs
    assert jobs.id.tolist() == ["7", "8_1"]
    assert (jobs.submit.tolist(), jobs.duration.tolist(), jobs.gpus.tolist()) == ([0, 30], [3540, 10], [2, 4])
    assert (jobs.user.tolist(), jobs.kind.tolist()) == (["ua", "ub"], ['train, "large"', "sweep"])
    assert trace.notes == (
        "1 rows are steps of jobs, and not counted as rows; sacct -X prints none",
        "2 jobs never started, and are left out",
        "1 jobs had not ended when the trace did, and are left out",
        "1 jobs ask for no accelerators, and are left out",
    )


def test_accounting_without_accelerators_or_jobs_or_with_bars_in_names(tmp_path):
    path = tmp_path / "jobs.psv"
    path.write_text("JobID|Submit|Start|End\n7|1|2|3\n")
    with pytest.raises(
        DataError, match=r"no column AllocTRES or ReqTRES, which tell accelerators; print .* sacct -X -P"
    ):
        read_trace(path)
    path.write_text("JobID|Submit|Start|End|AllocTRES\n7.batch|1|2|3|gres/gpu=1\n")
    with pytest.raises(DataError, match=r"all 1 rows are steps of jobs; print the jobs with sacct -X"):
        read_trace(path)
    path.write_text(SACCT.replace("sweep", "a|b", 1))
    with pytest.raises(DataError, match=r"Row #4: Expected 8 columns, got 9.*the header's 8 cells, parted by bars"):
        read_trace(path)
    (tmp_path / "jobs.csv").write_text("JobID|Submit|Start|End\n7|1|2|3\n")
    with pytest.raises(DataError, match=r"jobs\.csv: cells are parted by bars; end its name with \.psv"):
        read_trace(tmp_path / "jobs.csv")


def test_helios(tmp_path):
    (tmp_path / "cluster_log.csv").write_text(HELIOS)
    trace = read_trace(tmp_path / "cluster_log.csv")
    jobs = trace.jobs
    assert jobs.id.tolist() == ["11", "12"]
    assert (jobs.submit.tolist(), jobs.duration.tolist(), jobs.gpus.tolist()) == ([0, 30], [600, 30], [1, 4])
    assert jobs.user.tolist() == ["uA", "uB"]
    assert trace.notes == (
        "1 jobs ran for no time, and are left out", "1 jobs ask for no accelerators, and are left out",
    )  # fmt: skip
    assert trace.left_out[["row", "column"]].values.tolist() == [[3, "gpu_num"], [4, "duration"]]


def test_acme_compressed_and_with_zones(tmp_path):
    with gzip.open(tmp_path / "trace_seren.csv.gz", "wt") as file:
        file.write(SEREN)
    trace = read_trace(tmp_path / "trace_seren.csv.gz")
    assert (trace.jobs.id.tolist(), trace.jobs.submit.tolist()) == (["71", "72"], [0, 30])
    assert trace.jobs.kind.tolist() == ["Other", "Pretrain"]
    assert "1 jobs have no duration, and are left out" in trace.notes


def test_philly_without_an_ending(tmp_path):
    (tmp_path / "cluster_job_log").write_text(json.dumps(PHILLY))
    trace = read_trace(tmp_path / "cluster_job_log")
    jobs = trace.jobs
    assert (jobs.id.tolist(), jobs.submit.tolist()) == (["app_3", "app_1"], [0, 10])
    assert (jobs.duration.tolist(), jobs.gpus.tolist(), jobs.user.tolist()) == ([10, 90], [1, 3], ["w", "v"])
    assert set(trace.notes) == {
        "1 jobs had several attempts; their durations are the sums of these",
        "1 jobs have no duration, and are left out",
        "1 jobs ran for no time, and are left out",
        "rows were not in the order of submission and have been sorted",
    }
    PHILLY_BAD = [PHILLY[0] | {"attempts": [{"start_time": "x"}]}]
    (tmp_path / "bad.json").write_text(json.dumps(PHILLY_BAD))
    with pytest.raises(DataError, match="job 1: an attempt needs start_time, end_time and detail"):
        read_trace(tmp_path / "bad.json")


@pytest.mark.parametrize("jobs_beside", [False, True])
@pytest.mark.parametrize("packed", [False, True])
def test_alibaba_2020_without_a_header(tmp_path, jobs_beside, packed):
    (tmp_path / "pai_task_table.csv").write_text(PAI_TASKS)
    path = tmp_path / "pai_task_table.csv"
    if packed:
        path = tmp_path / "pai_task_table.tar.gz"
        with tarfile.open(path, "w:gz") as archive:
            archive.add(tmp_path / "pai_task_table.csv", "pai_task_table.csv")
    if jobs_beside:
        (tmp_path / "pai_job_table.csv").write_text(PAI_JOBS)
    trace = read_trace(path)
    jobs = trace.jobs
    assert jobs.id.tolist() == (["a", "b", "e"] if jobs_beside else ["b", "a", "e"])
    by_name = dict(zip(jobs.id, zip(jobs.duration, jobs.gpus, strict=True), strict=True))
    assert by_name == {"a": (100, 1), "b": (60, 3), "e": (10, 1)}
    assert jobs.submit.tolist() == ([0, 4, 49] if jobs_beside else [0, 5, 45])
    assert "6 tasks are 5 jobs; the tasks of a job run together" in trace.notes
    assert "1 jobs ask for parts of accelerators in sum, and get the next whole number" in trace.notes
    assert "1 jobs had not ended when the trace did, and are left out" in trace.notes
    assert "1 jobs ask for no accelerators, and are left out" in trace.notes
    assert any("starts stand in for them" in note for note in trace.notes) is not jobs_beside


def test_alibaba_2023_and_parts_of_an_accelerator(tmp_path):
    (tmp_path / "openb_pod_list_default.csv").write_text(PODS)
    trace = read_trace(tmp_path / "openb_pod_list_default.csv")
    assert trace.jobs.id.tolist() == ["pod-1", "pod-0"]
    assert (trace.jobs.duration.tolist(), trace.jobs.gpus.tolist()) == ([100, 197], [1, 8])
    assert (trace.jobs.milli.tolist(), trace.jobs.cpu.tolist()) == ([220, 1000], [4000, 88000])
    assert trace.models.tolist() == ["", ""]
    assert trace.notes[-1].startswith("1 jobs ask for a part of an accelerator; they get a whole one but with")
    assert "1 jobs never started, and are left out" in trace.notes


def test_alibaba_2025_and_instances_without_a_beginning_or_an_end(tmp_path):
    (tmp_path / "disaggregated_DLRM_trace.csv").write_text(DLRM)
    trace = read_trace(tmp_path / "disaggregated_DLRM_trace.csv")
    assert (trace.jobs.id.tolist(), trace.jobs.duration.tolist()) == (["instance_3"], [60])
    assert set(trace.notes) == {
        "1 jobs were there before the trace began, and are left out",
        "1 jobs had not ended when the trace did, and are left out",
        "1 jobs ask for no accelerators, and are left out",
    }


def test_elasticflow_with_iterations_and_deadlines(tmp_path):
    (tmp_path / "cluster01.csv").write_text(ELASTIC)
    jobs = read_trace(tmp_path / "cluster01.csv").jobs
    assert (jobs.id.tolist(), jobs.submit.tolist(), jobs.deadline.tolist()) == (["6b2e", "6b2d"], [0, 66], [100, 4847])
    assert (jobs.iterations.tolist(), jobs.kind.tolist()) == ([10, 40000], ["resnet50", "bert"])
    assert np.allclose(jobs.duration, [50, 4000])
