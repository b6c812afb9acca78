#include "comm_faults/refused_calls.h"

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>

#include "base/error.h"

namespace tessera::testing {

bool refuse_system_call(int number, int error) {
  const auto refusal = SECCOMP_RET_ERRNO | (static_cast<uint32_t>(error) & SECCOMP_RET_DATA);
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(number), 0, 1),
      BPF_STMT(BPF_RET | BPF_K, refusal),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter = {4, program};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

void refuse_new_descriptors() {
  // Descriptors below the limit that are free are used up; those in use stay.
  const int highest = fcntl(STDERR_FILENO, F_DUPFD, 0);
  require(highest >= 0, "no descriptor is free already");
  const rlimit limit = {static_cast<rlim_t>(highest), static_cast<rlim_t>(highest)};
  require(setrlimit(RLIMIT_NOFILE, &limit) == 0, "the limit of open files cannot be lowered");
  const int one_more = fcntl(STDERR_FILENO, F_DUPFD, 0);
  require(one_more < 0, "descriptor {} could still be opened", one_more);
}

}  // namespace tessera::testing
