#include "spec/recompute.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string_view>

#include "base/error.h"
#include "base/text/text.h"

namespace tessera {

namespace {

RecomputeChoice choice_of(Recompute kind) {
  switch (kind) {
    case Recompute::kNone:
      return {};
    case Recompute::kNorms:
      return {.norms = true};
    case Recompute::kLight:
      return {.norms = true, .activations = true};
    case Recompute::kSelective:
      return {.norms = true, .activations = true, .attention = true};
    case Recompute::kFull:
      return {.blocks = 1};
  }
  return {};
}

RecomputeChoice parse_choice(std::string_view text, const std::string& whole_text, int64_t layers) {
  if (const auto kind = choice_named<Recompute>(text)) return choice_of(*kind);
  constexpr std::string_view kEvery = "every-";
  int64_t blocks = 0;
  const std::string_view number = text.starts_with(kEvery) ? text.substr(kEvery.size()) : "";
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), blocks);
  const bool whole = !number.empty() && error != std::errc::invalid_argument &&
                     end == number.data() + number.size();
  require_config(
      whole,
      "parallel.recompute = {}: use none, norms, light, selective, full or every-K, such as "
      "every-{} (about the square root of {} layers), or several, such as light:{}+norms",
      in_quotes(whole_text), std::lround(std::sqrt(static_cast<double>(layers))), layers,
      std::max<int64_t>(1, layers / 2));
  require_config(error == std::errc() && blocks >= 1 && blocks <= layers,
                 "parallel.recompute = {}: K must be from 1 to layers = {}; use every-{}",
                 in_quotes(whole_text), layers,
                 number.starts_with('-') || (error == std::errc() && blocks < 1) ? 1 : layers);
  return {.blocks = blocks};
}

// "CHOICE:N".
RecomputePart parse_part(std::string_view text, const std::string& whole_text, int64_t layers) {
  const size_t colon = text.find(':');
  const std::string_view number = colon == text.npos ? "" : text.substr(colon + 1);
  int64_t size = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), size);
  require_config(
      error == std::errc() && end == number.data() + number.size() && size >= 1 && size <= layers,
      "parallel.recompute = {}: {} is not the last part, so it needs a number of blocks "
      "from 1 to layers = {}, such as light:1+norms",
      in_quotes(whole_text), in_quotes(std::string(text)), layers);
  return {parse_choice(text.substr(0, colon), whole_text, layers), size};
}

}  // namespace

std::vector<RecomputePart> parse_recompute(const std::string& text, int64_t layers) {
  std::vector<RecomputePart> parts;
  std::string_view rest = text;
  for (size_t plus = rest.find('+'); plus != rest.npos; plus = rest.find('+')) {
    parts.push_back(parse_part(rest.substr(0, plus), text, layers));
    rest.remove_prefix(plus + 1);
  }
  parts.push_back({parse_choice(rest, text, layers), layers});
  return parts;
}

std::vector<std::vector<RecomputePart>> parse_stages_recompute(const std::string& text,
                                                               int64_t layers, int64_t stages) {
  const auto choices = static_cast<int64_t>(std::count(text.begin(), text.end(), '/')) + 1;
  require_config(choices <= stages,
                 "parallel.recompute = {}: has {} choices, split by '/', for {} pipeline {}; give "
                 "one for each stage at most",
                 in_quotes(text), choices, stages, stages == 1 ? "stage" : "stages");
  std::vector<std::vector<RecomputePart>> all;
  for (int64_t i = 0; i < choices; ++i) {
    all.push_back(parse_recompute(recompute_of_stage(text, i), layers));
  }
  return all;
}

std::string recompute_of_stage(const std::string& text, int64_t stage) {
  size_t begin = 0;
  for (int64_t i = 0; i < stage; ++i) {
    const size_t slash = text.find('/', begin);
    if (slash == text.npos) break;
    begin = slash + 1;
  }
  return text.substr(begin, text.find('/', begin) - begin);
}

size_t part_of_block(const std::vector<RecomputePart>& parts, int64_t block) {
  size_t part = 0;
  for (; part + 1 < parts.size() && block >= parts[part].size; ++part) block -= parts[part].size;
  return part;
}

}  // namespace tessera
