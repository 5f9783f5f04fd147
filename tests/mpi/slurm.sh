#!/usr/bin/env bash
# slurm.sh MILLRACE: a Slurm of one machine, started for this test: srun with and without PMIx; a job that SIGUSR1
# saves and requeues ends with the weights of one that was not interrupted. Skipped where Slurm is absent or cannot start.
set -uo pipefail
source "$(dirname "$0")/start.sh"
millrace=$1

skip() {
  echo "skipped: $*"
  exit 77
}

PATH=$PATH:/usr/sbin:/sbin
for program in munged slurmctld slurmd srun sbatch; do
  command -v "$program" >/dev/null || skip "$program is not installed"
done
((EUID == 0)) || skip "slurmd needs root"

host=$(hostname -s)
export SLURM_CONF=$folder/slurm.conf
stop_slurm() {
  for program in slurmd slurmctld munge; do
    pid=$(cat "$folder/$program.pid" 2>/dev/null) || continue
    kill "$pid" 2>/dev/null
    timeout 10 tail --pid="$pid" -f /dev/null
  done
  rm -rf "$folder"
}
trap stop_slurm EXIT

# Two ports that nobody listens at, below those that connections get.
port=$((20000 + 2 * ($$ % 6000)))
is_taken() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }
while is_taken "$port" || is_taken $((port + 1)); do port=$((port + 2)); done
mkdir "$folder/state" "$folder/spool"
head -c 1024 /dev/urandom >"$folder/munge.key"
chmod 400 "$folder/munge.key"
cat >"$SLURM_CONF" <<CONF
ClusterName=test
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$port
SlurmdPort=$((port + 1))
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$folder/munge.socket,cred_expire=5
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/slurmd.pid
SlurmctldLogFile=$folder/slurmctld.log
SlurmdLogFile=$folder/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/linear
SlurmdParameters=config_overrides
SchedulerParameters=sched_interval=2
ReturnToService=2
NodeName=$host NodeAddr=127.0.0.1 CPUs=4 State=UNKNOWN
PartitionName=all Nodes=$host Default=YES MaxTime=INFINITE State=UP OverSubscribe=YES
CONF

munged --force --key-file="$folder/munge.key" --socket="$folder/munge.socket" --pid-file="$folder/munge.pid" \
  --log-file="$folder/munge.log" --seed-file="$folder/munge.seed" 2>/dev/null || skip "munged does not start here"
slurmctld -c && slurmd || skip "Slurm does not start here"
sleep 0.5
kill -0 "$(cat "$folder/slurmctld.pid")" 2>/dev/null || skip "slurmctld ended: $(tail -n 1 "$folder/slurmctld.log")"
for ((i = 0; i < 100; ++i)); do
  [[ $(sinfo -h -o %T 2>/dev/null) == *idle* ]] && break
  sleep 0.1
done
[[ $(sinfo -h -o %T 2>/dev/null) == *idle* ]] || skip "Slurm's node does not come up: $(tail -n 1 "$folder/slurmd.log")"
[[ $(srun --mpi=list 2>&1) == *pmix* ]] || skip "this Slurm has no PMIx"

cd "$folder" || exit 1
# Long enough for a signal to arrive in the middle.
train=("$millrace" train --model lenet --precision fp32 --fake-data 64000 --epochs 2 --batch-size 16 --log-steps 100)

srun -n 3 "${train[@]}" --run-dir none >alone.log 2>&1
(($? == 2)) || fail "srun without PMIx: no status 2"
(($(grep -c "SLURM_STEP_NUM_TASKS=3, but srun has not connected them, and MPI would find 1" alone.log) == 1)) ||
  fail "$(cat alone.log)"

srun --mpi=pmix -n 4 "${train[@]}" --run-dir whole >whole.log 2>&1 || fail "srun: $(tail -n 3 whole.log)"
grep -q "4 processes x 1 device" whole.log || fail "$(head -n 3 whole.log)"

# The batch script of docs/cluster.md, but for the data.
cat >job.sh <<JOB
#!/bin/bash
#SBATCH --ntasks=4 --requeue --open-mode=append --output=job.log
srun --mpi=pmix ${train[*]} --run-dir run --resume auto
status=\$?
if ((status == 138)); then scontrol requeue "\$SLURM_JOB_ID"; fi
exit \$status
JOB
job=$(sbatch --parsable job.sh)

# await TEXT: at most two minutes for a line of the job's log.
await() {
  for ((i = 0; i < 1200; ++i)); do
    grep -q "$1" job.log 2>/dev/null && return
    sleep 0.1
  done
  fail "no '$1' in the job's log: $(tail -n 3 job.log)"
}
await "Step=100 "
scancel --signal=USR1 "$job"
await "interrupted"
# Slurm starts it again once the credentials of its first start have expired; started sooner, it would fail at times.
await "^Done after 2 epochs"
grep -q "Resum" job.log || fail "it did not resume: $(cat job.log)"
cmp whole/checkpoints/last/model.safetensors run/checkpoints/last/model.safetensors ||
  fail "the requeued run ends with other weights"
exit $failed
