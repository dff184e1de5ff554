# shellcheck shell=bash
# A real Slurm of two nodes, node0 and node1, on this one host: to be sourced inside sandbox.sh.
#
#   slurm_plugstack LINE…       what plugstack.conf includes; before slurm_start, or restart the slurmds after
#   slurm_start [LINE…]         starts everything and waits until both nodes are idle; LINEs are added to slurm.conf;
#                               $SLURM_CRED_EXPIRE is for how many seconds a job's credential is good (120)
#   slurm_stop                  ends all jobs and daemons
#   slurm_restart_slurmd NODE [SIGNAL]
#   slurm_wait_idle [SECONDS]   until no job is left and every node is idle
#   slurm_assert_not_drained    fails, and says why, if a node is drained or down
#   slurmd_log NODE, slurmctld_log
#   as_user USER COMMAND…       in USER's home with a clean environment; COMMAND is a program, no shell function
#   submit USER SBATCH-ARG…     prints the job's id; standard input goes to sbatch
#   wait_job ID [SECONDS]       until it has left the queue, its epilog included
#   job_output ID               what it printed, also while it runs
#   job_field ID NAME           a field of "scontrol show job", such as JobState or ExitCode
#
# Jobs get 4 CPUs and 4000 MiB a node in the partitions main (default) and gpu. Everything lies in $SLURM_DIR, so that the
# functions also work in another process of the same sandbox, such as the next bats test.

: "${MONARCH_SANDBOX:?run this in tests/cluster/sandbox.sh}"
SLURM_DIR=$MONARCH_SANDBOX/slurm
SLURM_NODES=(node0 node1)
export SLURM_CONF=$SLURM_DIR/slurm.conf
export PATH=$PATH:/usr/sbin:/sbin

# ---- processes -----------------------------------------------------------------------------------------------

# poll SECONDS COMMAND…: until COMMAND succeeds; false if it never does.
poll() {
    local end=$((SECONDS + $1))
    shift
    until "$@"; do
        ((SECONDS < end)) || return 1
        sleep 0.05
    done
}

# A zombie counts as gone: who has to reap it may be busy.
is_gone() {
    local stat
    stat=$(cat "/proc/$1/stat" 2>/dev/null) || return 0
    stat=${stat##*) }
    [[ $stat == [ZX]* ]]
}

# start_daemon NAME COMMAND…: in the background, output in NAME.out, process id in NAME.pid.
# Descriptor 3 is closed because bats waits for whoever holds it, and SIGINT is restored because background processes
# of a shell ignore it, and so would the jobs.
start_daemon() {
    local name=$1
    shift
    setsid env --default-signal=INT,QUIT "$@" </dev/null >>"$SLURM_DIR/log/$name.out" 2>&1 3>&- &
    echo $! >"$SLURM_DIR/run/$name.pid"
    disown # or the shell reports each of them that is killed
}

# stop_daemon NAME [SIGNAL]: and wait until it is gone.
stop_daemon() {
    local file=$SLURM_DIR/run/$1.pid pid
    pid=$(cat "$file" 2>/dev/null) || return 0
    kill "-${2:-TERM}" "$pid" 2>/dev/null || true
    poll 20 is_gone "$pid" || kill -KILL "$pid" 2>/dev/null || true
    poll 5 is_gone "$pid"
    rm -f "$file"
}

daemon_runs() {
    local pid
    pid=$(cat "$SLURM_DIR/run/$1.pid" 2>/dev/null) || return 1
    ! is_gone "$pid"
}

listens() {
    local hex
    printf -v hex ':%04X' "$1"
    grep -qs "^ *[0-9]*: [0-9A-F]*$hex [0-9A-F]*:0000 0A " /proc/net/tcp /proc/net/tcp6
}

# Three ports in a row that nobody listens on, below those that the kernel hands out to clients.
free_ports() {
    local port
    while :; do
        port=$((10000 + RANDOM % 20000))
        listens $port || listens $((port + 1)) || listens $((port + 2)) || break
    done
    echo $port
}

# ---- configuration -------------------------------------------------------------------------------------------

slurm_plugstack() {
    mkdir -p "$SLURM_DIR/plugstack.conf.d"
    printf '%s\n' "$@" >"$SLURM_DIR/plugstack.conf.d/monarch.conf"
}

# write_slurm_conf PORT LINE…
write_slurm_conf() {
    local port=$1 host i
    shift
    host=$(uname -n)
    host=${host%%.*}
    cat >"$SLURM_CONF" <<END
ClusterName=monarch
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$port
SlurmUser=root
SlurmdUser=root
AuthInfo=socket=$SLURM_DIR/run/munge.socket,cred_expire=${SLURM_CRED_EXPIRE:-120}
StateSaveLocation=$SLURM_DIR/state
SlurmdSpoolDir=$SLURM_DIR/spool/%n
SlurmctldPidFile=$SLURM_DIR/run/slurmctld.own.pid
SlurmdPidFile=$SLURM_DIR/run/%n.own.pid
SlurmctldLogFile=$SLURM_DIR/log/slurmctld.log
SlurmdLogFile=$SLURM_DIR/log/%n.log
SlurmctldDebug=debug
SlurmdDebug=debug
PlugStackConfig=$SLURM_DIR/plugstack.conf
PrologFlags=Alloc
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
MailProg=/bin/true
PropagateResourceLimits=NONE
ReturnToService=2
KillWait=5
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0,sched_interval=1,bf_interval=1
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
END
    for i in "${!SLURM_NODES[@]}"; do
        echo "NodeName=${SLURM_NODES[i]} NodeHostname=$host NodeAddr=127.0.0.1 Port=$((port + 1 + i))" \
            "CPUs=4 Sockets=1 CoresPerSocket=4 ThreadsPerCore=1 RealMemory=4000 State=UNKNOWN"
    done >>"$SLURM_CONF"
    cat >>"$SLURM_CONF" <<END
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
PartitionName=gpu Nodes=ALL MaxTime=INFINITE State=UP
END
    [[ $# -eq 0 ]] || printf '%s\n' "$@" >>"$SLURM_CONF"
    echo "include $SLURM_DIR/plugstack.conf.d/*.conf" >"$SLURM_DIR/plugstack.conf"
    write_cgroup_conf
}

# No cgroups are needed here, but slurmd detects which there are and does not start where none are mounted (a chroot) or
# where systemd's bus is missing (version 2). Version 1 is not touched before it is used; newer Slurms can do without.
write_cgroup_conf() {
    local version plugin=cgroup/v1
    version=$(slurmctld -V)
    version=${version#* }
    if printf '24.11\n%s\n' "$version" | sort -CV; then plugin=disabled; fi
    echo "CgroupPlugin=$plugin" >"$SLURM_DIR/cgroup.conf"
}

# ---- life ----------------------------------------------------------------------------------------------------

slurm_start() {
    ! daemon_runs slurmctld || { echo "slurm_start: it runs already" >&2; return 1; }
    rm -rf "$SLURM_DIR"/{run,log,state,spool}
    mkdir -p "$SLURM_DIR"/{run,log,state,spool/node0,spool/node1,plugstack.conf.d}
    write_slurm_conf "$(free_ports)" "$@"
    start_munged
    start_daemon slurmctld slurmctld -D
    local node
    for node in "${SLURM_NODES[@]}"; do start_slurmd "$node"; done
    slurm_wait_idle 60 || { slurm_why_not >&2; return 1; }
}

start_munged() {
    (umask 077 && head -c 1024 /dev/urandom >"$SLURM_DIR/run/munge.key")
    start_daemon munged munged --foreground --force --socket="$SLURM_DIR/run/munge.socket" \
        --key-file="$SLURM_DIR/run/munge.key" --pid-file="$SLURM_DIR/run/munged.own.pid" \
        --seed-file="$SLURM_DIR/run/munge.seed" --log-file="$SLURM_DIR/log/munged.log"
    poll 20 test -S "$SLURM_DIR/run/munge.socket" || { cat "$SLURM_DIR/log/munged.out" >&2; return 1; }
}

start_slurmd() {
    start_daemon "$1" slurmd -D -N "$1"
}

# What a person would look at when the cluster does not come up.
slurm_why_not() {
    echo "slurm_start: the nodes do not become idle"
    sinfo -N -o '%N %T %E' || true
    tail -n 15 "$SLURM_DIR"/log/*.log "$SLURM_DIR"/log/*.out || true
}

slurm_stop() {
    if daemon_runs slurmctld; then
        squeue -h -o %A | sort -u | xargs -r scancel 2>/dev/null || true
        poll 20 no_job_left || squeue >&2
    fi
    local name
    for name in "${SLURM_NODES[@]}" slurmctld munged; do stop_daemon "$name"; done
    # Step daemons outlive slurmd by design; what they ran goes with them.
    pkill -KILL -x slurmstepd || true
    poll 5 no_step_daemon
}

no_step_daemon() {
    local pid
    for pid in $(pgrep -x slurmstepd); do is_gone "$pid" || return 1; done
}

# slurm_restart_slurmd NODE [SIGNAL]: SIGNAL is what ends it, KILL for a crash.
slurm_restart_slurmd() {
    stop_daemon "$1" "${2:-TERM}"
    start_slurmd "$1"
    poll 30 slurmd_answers "$1" || { tail -n 15 "$SLURM_DIR/log/$1.log" >&2; return 1; }
}

# slurmd listens, and slurmctld does not mark the node as silent.
slurmd_answers() {
    local port state
    port=$(sed -n "s/^NodeName=$1 .* Port=\([0-9]*\).*/\1/p" "$SLURM_CONF")
    listens "$port" || return 1
    state=$(sinfo -h -n "$1" -p main -o %T) && [[ -n $state && $state != *"*" ]]
}

# ---- questions -----------------------------------------------------------------------------------------------

no_job_left() {
    local jobs
    jobs=$(squeue -h 2>/dev/null) && [[ -z $jobs ]]
}

all_idle() {
    local states
    no_job_left || return 1
    states=$(sinfo -h -N -p main -o %T 2>/dev/null | sort | uniq -c | tr -s ' ') || return 1
    [[ $states == " ${#SLURM_NODES[@]} idle" ]]
}

slurm_wait_idle() {
    poll "${1:-120}" all_idle && return 0
    { squeue; sinfo -N -o '%N %T %E'; } >&2 || true
    return 1
}

slurm_assert_not_drained() {
    local states
    states=$(sinfo -h -N -p main -o '%N %T %E') || return 1
    ! grep -E '^[^ ]+ [^ ]*(drain|down|fail)' <<<"$states" >&2
}

slurmd_log() {
    cat "$SLURM_DIR/log/$1.log"
}

slurmctld_log() {
    cat "$SLURM_DIR/log/slurmctld.log"
}

# ---- users and jobs ------------------------------------------------------------------------------------------

as_user() {
    local user=$1 home
    shift
    home=$(getent passwd "$user" | cut -d: -f6)
    env -i --chdir="$home" HOME="$home" USER="$user" LOGNAME="$user" SHELL=/bin/bash LANG=C.UTF-8 \
        PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin SLURM_CONF="$SLURM_CONF" MONARCH_SANDBOX="$MONARCH_SANDBOX" \
        TMPDIR="$MONARCH_SANDBOX/tmp" setpriv --reuid "$user" --regid "$user" --init-groups "$@"
}

submit() {
    local user=$1 id
    shift
    id=$(as_user "$user" sbatch --parsable "$@") || return
    echo "${id%%;*}"
}

left_queue() {
    local answer
    if answer=$(squeue -h -j "$1" 2>&1); then [[ -z $answer ]]; else [[ $answer == *"Invalid job id"* ]]; fi
}

wait_job() {
    poll "${2:-120}" left_queue "$1" && return 0
    { echo "wait_job: job $1 is still there"; squeue -j "$1"; } >&2
    return 1
}

job_field() {
    scontrol show job "$1" | tr ' ' '\n' | sed -n "s/^$2=//p" | head -n 1
}

job_output() {
    local file
    file=$(scontrol show job "$1" | sed -n 's/^ *StdOut=//p' | head -n 1)
    cat "$file"
}
