// The signals that ask a run to end in order: those of people (^C, a connection that is lost) and
// those that batch systems send before a job's time is up. SIGQUIT is none of them: it kills.
#pragma once

#include <array>
#include <csignal>

namespace tessera {

inline constexpr std::array kStopSignals = {SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGXCPU};

// Whoever starts a program may have chosen that it does not hear them, as nohup does with SIGHUP.
constexpr bool may_stay_ignored(int signal) { return signal != SIGINT && signal != SIGTERM; }

// The kernel sends it every second that a process computes beyond its limit.
constexpr bool repeats_itself(int signal) { return signal == SIGXCPU; }

}  // namespace tessera
