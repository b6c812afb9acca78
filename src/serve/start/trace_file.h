// A trace of frames that is written when nobody adds to it any more.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "serve/ranks/frame_trace.h"

namespace tessera::serve {

// "trace.json"; of further replicas and generations "trace-replica-1-generation-2.json".
std::filesystem::path trace_path(const std::filesystem::path& asked, int replica, int generation);

// `say` is told where it was written, or why it was not. May be null.
std::shared_ptr<FrameTrace> make_trace_file(const std::filesystem::path& path, int ranks,
                                            std::function<void(const std::string&)> say);

}  // namespace tessera::serve
