// The processes of a server's ranks: started, watched, and ended, by a thread of their own, so that
// whoever uses them only has to wait for one descriptor.
//
// Nothing outlives this object, nor the process that has it: ranks are tied to the thread that
// starts them and killed when it ends, and their memory has no name. The first rank that is lost
// (ended, stopped, hung: frame_watch.h) ends all of them: the others leave their waits, get
// `leave_time`, and are killed; then verdict() says why, in one message. Signals that ask a run to
// stop are not for ranks: whoever serves ends them when all answers are complete.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launch/environment.h"
#include "launch/unique_fd.h"
#include "serve/ranks/frame_watch.h"

namespace tessera::serve {

struct RankProcessesOptions {
  int ranks = 1;
  int threads_per_rank = 1;  // with `ranks` and `places`: whether threads have cores of their own
  // Where several such groups share the host: this one's ranks are `first_place`, ... of `places`.
  int first_place = 0;
  int places = 0;  // 0: as many as ranks

  std::string executable = {};              // empty: this program
  std::vector<std::string> arguments = {};  // with argv[0]
  Environment environment = {};             // TESSERA_... variables are added
  int generation = 1;
  std::string name = {};  // before what ranks print: "[replica 1 rank 0] "

  FrameWatchBounds watch = {};
  std::chrono::milliseconds leave_time{250};
  int64_t bytes_per_rank = 0;  // as in ShmMemoryOptions
  int err_fd = 2;              // gets all that ranks print
};

// Why ranks are gone.
struct RankVerdict {
  std::string message;  // one line, with rank, pid, and what it did last
  int exit_code = 1;
  bool curable = true;  // new ranks may do better
  int rank = 0;
};

class RankProcesses {
 public:
  // Returns when all have been started; throws Error where one cannot be.
  explicit RankProcesses(RankProcessesOptions options);
  // Kills those that are still there.
  ~RankProcesses();
  RankProcesses(const RankProcesses&) = delete;
  RankProcesses& operator=(const RankProcesses&) = delete;

  // The front's ends of the sockets, once; by rank.
  [[nodiscard]] std::vector<UniqueFd> take_sockets();
  [[nodiscard]] pid_t pid(int rank) const;

  // Readable as soon as there is a verdict.
  [[nodiscard]] int verdict_fd() const;
  [[nodiscard]] std::optional<RankVerdict> verdict() const;
  // Called once, on the watching thread, with the verdict: before the descriptor is readable.
  void set_on_verdict(std::function<void(const RankVerdict&)> on_verdict);

  // For the watch.
  void frames_under_way(const std::optional<FramesUnderWay>& frames);
  // Changes while any rank comes further. From any thread.
  [[nodiscard]] uint64_t progress() const;
  // Something was seen of the rank that its process does not show: it is lost for this reason.
  void condemn(int rank, const std::string& why);
  // In order: whoever calls this has told the ranks that nothing will come. Returns when all are
  // gone; kills those that are not after `grace`.
  void end(std::chrono::milliseconds grace);

 private:
  class Keeper;
  std::unique_ptr<Keeper> keeper_;
};

}  // namespace tessera::serve
