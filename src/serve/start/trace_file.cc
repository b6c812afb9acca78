#include "serve/start/trace_file.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <utility>

namespace tessera::serve {
namespace {

struct TraceFile {
  TraceFile(std::filesystem::path path_in, int ranks,
            std::function<void(const std::string&)> say_in)
      : path(std::move(path_in)), say(std::move(say_in)), trace(ranks) {}
  ~TraceFile() {
    std::ofstream out(path, std::ios::binary | std::ios::trunc);
    out << trace.json();
    out.close();
    if (!say) return;
    const int error = errno;
    say(out.good() ? fmt::format("the trace of frames is in {}", path.string())
                   : fmt::format("the trace of frames cannot be written to {}: {}", path.string(),
                                 std::strerror(error)));
  }
  TraceFile(const TraceFile&) = delete;
  TraceFile& operator=(const TraceFile&) = delete;

  std::filesystem::path path;
  std::function<void(const std::string&)> say;
  FrameTrace trace;
};

}  // namespace

std::filesystem::path trace_path(const std::filesystem::path& asked, int replica, int generation) {
  std::string name = asked.stem().string();
  if (replica > 0) name += fmt::format("-replica-{}", replica);
  if (generation > 1) name += fmt::format("-generation-{}", generation);
  std::filesystem::path path = asked;
  return path.replace_filename(name + asked.extension().string());
}

std::shared_ptr<FrameTrace> make_trace_file(const std::filesystem::path& path, int ranks,
                                            std::function<void(const std::string&)> say) {
  auto file = std::make_shared<TraceFile>(path, ranks, std::move(say));
  return {file, &file->trace};
}

}  // namespace tessera::serve
