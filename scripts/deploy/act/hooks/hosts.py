"""The hosts that a request of `act` wants left out."""
import json
import re
import sys

# What schedulers take as a node: nothing that a shell or an option could be made of.
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}")


def read_hosts():
    request = json.load(sys.stdin)
    if request["action"] != "restart":
        sys.exit("this hook does not do '%s'" % request["action"])
    strategy = request["strategy"]
    hosts = strategy["hosts"][:1] if strategy["either_host"] else strategy["hosts"]
    for host in hosts:
        if not NAME.fullmatch(host):
            sys.exit("'%s' is no name of a node" % host.encode("unicode_escape").decode()[:80])
    if not hosts:
        sys.exit("the advice accuses no host: restart the job where it is")
    return hosts, "ccld incident %d: %s" % (request["incident"]["incident"], request["incident"]["title"])
