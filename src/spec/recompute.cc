#include "spec/recompute.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string_view>

#include "base/error.h"
#include "base/text.h"

namespace tessera {

RecomputeChoice parse_recompute(const std::string& text, int64_t layers) {
  if (text == "none") return {};
  if (text == "norms") return {.norms = true};
  if (text == "light") return {.norms = true, .activations = true};
  if (text == "selective") return {.norms = true, .activations = true, .attention = true};
  if (text == "full") return {.blocks = 1};
  constexpr std::string_view kEvery = "every-";
  int64_t blocks = 0;
  const std::string_view number =
      text.starts_with(kEvery) ? std::string_view(text).substr(kEvery.size()) : "";
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), blocks);
  const bool whole = !number.empty() && error != std::errc::invalid_argument &&
                     end == number.data() + number.size();
  require_config(
      whole,
      "parallel.recompute = {}: use none, norms, light, selective, full or every-K, such as "
      "every-{} (about the square root of {} layers)",
      in_quotes(text), std::lround(std::sqrt(static_cast<double>(layers))), layers);
  require_config(error == std::errc() && blocks >= 1 && blocks <= layers,
                 "parallel.recompute = {}: K must be from 1 to layers = {}; use every-{}",
                 in_quotes(text), layers,
                 number.starts_with('-') || (error == std::errc() && blocks < 1) ? 1 : layers);
  return {.blocks = blocks};
}

}  // namespace tessera
