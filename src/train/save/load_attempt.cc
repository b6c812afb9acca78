#include "train/save/load_attempt.h"

#include <string>
#include <vector>

namespace tessera {
namespace {

// Another checkpoint may do better.
bool is_of_the_checkpoint(ExitCode code) {
  return code == ExitCode::kCorrupt || code == ExitCode::kAbsent || code == ExitCode::kIo;
}

}  // namespace

std::optional<LoadFailure> try_to_load(Communicator& control, const std::function<void()>& load) {
  std::string mine;  // exit code, space, words; empty: loaded
  try {
    load();
  } catch (const Error& error) {
    if (!is_of_the_checkpoint(error.code())) throw;
    mine = fmt::format("{} {}", static_cast<int>(error.code()), error.what());
  }
  const std::vector<std::string> all = exchange_texts(control, mine);
  for (size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank].empty()) continue;
    const size_t cut = all[rank].find(' ');
    const auto code = static_cast<ExitCode>(std::stoi(all[rank].substr(0, cut)));
    return LoadFailure{static_cast<int>(rank), Error(all[rank].substr(cut + 1), code)};
  }
  return std::nullopt;
}

}  // namespace tessera
