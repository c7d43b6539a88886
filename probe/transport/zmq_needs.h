// Whether libzmq would get what it needs: it ends the process where it cannot start a thread, or get a descriptor of some
// kinds. The process is somebody's training.
//
// Contract: takes what libzmq takes to begin, and gives it back at once. Who fills the last places between this and libzmq's
// own asking wins all the same: that window is microseconds, and without this it was the life of the process.
// Errors: what is missing, as one line; empty: nothing. Threads: any.
#pragma once

#include <string>

namespace ccld::probe {

std::string missing_for_zmq();
// For another socket, when its threads are there.
std::string missing_for_zmq_socket();

}  // namespace ccld::probe
