#include "checkpoint/store/store_names.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

namespace tessera {
namespace {

constexpr size_t kMostId = 64;
constexpr std::string_view kInProgress = ".inprogress-";
constexpr std::string_view kStep = "step-";
constexpr std::string_view kData = "data-", kOf = "-of-";
constexpr std::string_view kDataEnd = ".safetensors", kCrcEnd = ".crc";

bool is_letter_or_digit(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

// Digits alone, and at least `fewest` of them.
std::optional<uint64_t> number_of(std::string_view digits, size_t fewest) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(digits.begin(), digits.end(), value);
  if (error != std::errc() || end != digits.end() || digits.size() < fewest) return std::nullopt;
  return value;
}

// Takes `text` off the front.
bool take(std::string_view& from, std::string_view text) {
  if (!from.starts_with(text)) return false;
  from.remove_prefix(text.size());
  return true;
}

}  // namespace

bool is_id(std::string_view text) {
  return !text.empty() && text.size() <= kMostId && std::ranges::all_of(text, is_letter_or_digit);
}

std::string text_of(const SaveId& id) {
  return fmt::format("run {}, generation {}, save {}", id.run, id.generation, id.save);
}

std::string step_folder(int64_t step) { return fmt::format("{}{:08}", kStep, step); }

std::optional<int64_t> step_of_folder(std::string_view name) {
  const std::string_view all = name;
  if (!take(name, kStep)) return std::nullopt;
  const auto step = number_of(name, 8);
  if (!step || *step > static_cast<uint64_t>(kMostStep)) return std::nullopt;
  const auto value = static_cast<int64_t>(*step);
  // One name for a step: no leading zeros beyond eight digits.
  return step_folder(value) == all ? std::optional(value) : std::nullopt;
}

std::string pin_file(int64_t step) { return step_folder(step) + ".pin"; }

std::string in_progress_folder(const SaveId& id) {
  return fmt::format("{}{}-{}-{}", kInProgress, id.run, id.generation, id.save);
}

std::optional<SaveId> in_progress_of_folder(std::string_view name) {
  const std::string_view all = name;
  if (!take(name, kInProgress)) return std::nullopt;
  const size_t first = name.find('-');
  const size_t last = name.rfind('-');
  if (first == name.npos || first == last) return std::nullopt;
  SaveId id{std::string(name.substr(0, first)), 0, std::string(name.substr(last + 1))};
  const auto generation = number_of(name.substr(first + 1, last - first - 1), 1);
  if (!generation || !is_id(id.run) || !is_id(id.save)) return std::nullopt;
  id.generation = *generation;
  return in_progress_folder(id) == all ? std::optional(id) : std::nullopt;
}

std::string data_file(int64_t rank, int64_t world) {
  return fmt::format("{}{:04}{}{:04}{}", kData, rank, kOf, world, kDataEnd);
}

std::string crc_file(int64_t rank, int64_t world) {
  return fmt::format("{}{:04}{}{:04}{}", kData, rank, kOf, world, kCrcEnd);
}

std::string crc_file_of(std::string_view data_file) {
  return std::string(data_file.substr(0, data_file.size() - kDataEnd.size())).append(kCrcEnd);
}

bool is_shard_file(std::string_view name) {
  if (name.size() > 128 || !take(name, kData)) return false;
  const std::string_view end = name.ends_with(kDataEnd) ? kDataEnd : kCrcEnd;
  if (!name.ends_with(end)) return false;
  name.remove_suffix(end.size());
  const size_t of = name.find(kOf);
  return of != name.npos && number_of(name.substr(0, of), 4) &&
         number_of(name.substr(of + kOf.size()), 4);
}

std::string chunk_name(std::string_view tensor, const Box& box) {
  return fmt::format("{}@{}", tensor, fmt::join(box.offset, ","));
}

}  // namespace tessera
