# Sourced by prolog, epilog and task_prolog: where things are, and what all nodes of a job can work out alone.
# Change the four paths here, or set them in ccld.conf beside this file.
# shellcheck shell=bash disable=SC2034
CCLD=/opt/ccld/bin/ccld
CCLD_LIBRARIES=/opt/ccld/lib  # libnccl.so.2 and libzmq, as `ccld-install /opt/ccld/lib` puts them
CCLD_RUN=/run/ccld            # process ids of running services, one file for each job; only root writes here
CCLD_LOG=/var/log/ccld        # verdicts and logs, one folder for each job, the user's; they stay
# A folder on a file system of all nodes, readable by the job's user, with service.key, service.pub, probes and probe.key (SECURITY.md).
CCLD_KEYS=
# 1: without keys, too. Then the service of a job takes telemetry from whoever reaches its port, while the job lasts.
CCLD_INSECURE=
# shellcheck source=/dev/null
[ ! -f "${BASH_SOURCE[0]%/*}/ccld.conf" ] || . "${BASH_SOURCE[0]%/*}/ccld.conf"
export PATH=$PATH:/usr/sbin:/usr/bin:/sbin:/bin  # Slurm sets none for prologs

ccld_may_listen() { [ -n "${CCLD_KEYS:-}" ] || [ "${CCLD_INSECURE:-}" = 1 ]; }
# Two ports of the job, the second for questions; below those that the kernel gives out by itself.
ccld_port() { echo $((20000 + SLURM_JOB_ID % 5000 * 2 + $1)); }
ccld_head_node() { scontrol show hostnames "${SLURM_JOB_NODELIST:-${SLURM_NODELIST:-}}" | head -n 1; }
ccld_is_head_node() { [ "$(ccld_head_node)" = "${SLURMD_NODENAME:-$(hostname -s)}" ]; }
