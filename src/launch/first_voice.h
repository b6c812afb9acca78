// Ranks of one job often find the same mistake, each by itself, before they can talk to each other:
// the first to find it says so.
#pragma once

#include <string_view>

#include "launch/environment.h"
#include "launch/unique_fd.h"

namespace tessera {

class FirstVoice {
 public:
  // For `text` said by a rank of `context`. Takes the word for as long as this lives, unless a peer
  // has it that users read the same output of: on this host, from the same mpirun or srun, or with
  // the same standard error.
  FirstVoice(const LaunchContext& context, std::string_view text);

  // False: a peer is saying it. Where that cannot be known, nobody else is.
  [[nodiscard]] bool speaks() const { return speaks_; }

 private:
  UniqueFd word_;
  bool speaks_ = true;
};

}  // namespace tessera
