// A line of metrics read in one pass, without a tree: files have millions of them. Pure.
#pragma once

#include <optional>
#include <string_view>

#include "watch/metrics_line.h"

namespace tessera {

// Nothing: it is not as plain as runs write it (an escape, a name twice, anything that may be no
// JSON), and parse_metrics_line() is to say what it is. Where both read a line they give the same
// numbers.
std::optional<MetricsLine> quick_metrics_line(std::string_view text);

}  // namespace tessera
