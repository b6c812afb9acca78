#include "watch/event_file.h"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <cmath>

#include "base/crc32c.h"
#include "base/error.h"

namespace tessera {
namespace {

// Field numbers and wire types of the messages that are written.
enum Wire : uint64_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };
enum EventField : uint64_t { kWallTime = 1, kStep = 2, kFileVersion = 3, kSummary = 5 };
constexpr uint64_t kSummaryValue = 1;
enum ValueField : uint64_t { kTag = 1, kSimpleValue = 2 };

constexpr std::array<std::pair<std::string_view, std::string_view>, 10> kTags = {
    {{"loss", "train/loss"},
     {"lr", "train/lr"},
     {"grad_norm", "train/grad_norm"},
     {"loss_scale", "train/loss_scale"},
     {"tokens", "train/tokens"},
     {"valid_loss", "valid/loss"},
     {"valid_perplexity", "valid/perplexity"},
     {"tokens_per_s", "speed/tokens_per_s"},
     {"step_ms", "speed/step_ms"},
     {"mfu", "speed/mfu"}}};

// A check sum that is stored inside data that is summed itself is turned and moved.
uint32_t masked(uint32_t crc) { return ((crc >> 15) | (crc << 17)) + 0xA282EAD8U; }

void put_fixed(std::string& to, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) to += static_cast<char>((value >> (8 * i)) & 0xFF);
}

void put_varint(std::string& to, uint64_t value) {
  for (; value >= 0x80; value >>= 7) to += static_cast<char>((value & 0x7F) | 0x80);
  to += static_cast<char>(value);
}

void put_key(std::string& to, uint64_t field, Wire wire) { put_varint(to, field << 3 | wire); }

void put_bytes(std::string& to, uint64_t field, std::string_view bytes) {
  put_key(to, field, kBytes);
  put_varint(to, bytes.size());
  to += bytes;
}

std::string event_at(double time) {
  std::string event;
  put_key(event, kWallTime, kFixed64);
  put_fixed(event, std::bit_cast<uint64_t>(time), 8);
  return event;
}

std::string record_of(std::string_view data) {
  std::string record;
  put_fixed(record, data.size(), 8);
  put_fixed(record, masked(crc32c(record)), 4);
  record += data;
  put_fixed(record, masked(crc32c(data)), 4);
  return record;
}

// Reads one message field by field.
class Fields {
 public:
  explicit Fields(std::string_view bytes) : left_(bytes) {}

  bool next() {
    if (left_.empty()) return false;
    const uint64_t key = varint();
    field_ = key >> 3;
    switch (key & 7) {
      case kVarint:
        number_ = varint();
        break;
      case kFixed64:
        number_ = fixed(8);
        break;
      case kFixed32:
        number_ = fixed(4);
        break;
      case kBytes:
        bytes_ = take(varint());
        break;
      default:
        throw ConfigError("a field of an unknown kind");
    }
    return true;
  }
  [[nodiscard]] uint64_t field() const { return field_; }
  [[nodiscard]] uint64_t number() const { return number_; }
  [[nodiscard]] std::string_view bytes() const { return bytes_; }

 private:
  std::string_view take(uint64_t size) {
    require_config(size <= left_.size(), "a message that is cut off");
    const std::string_view taken = left_.substr(0, static_cast<size_t>(size));
    left_.remove_prefix(taken.size());
    return taken;
  }
  uint64_t fixed(uint64_t bytes) {
    uint64_t value = 0;
    int shift = 0;
    for (const char c : take(bytes)) {
      value |= static_cast<uint64_t>(static_cast<unsigned char>(c)) << shift;
      shift += 8;
    }
    return value;
  }
  uint64_t varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const uint64_t byte = fixed(1);
      value |= (byte & 0x7F) << shift;
      if ((byte & 0x80) == 0) return value;
    }
    throw ConfigError("a number of more than ten bytes");
  }

  std::string_view left_;
  uint64_t field_ = 0, number_ = 0;
  std::string_view bytes_;
};

std::pair<std::string, double> value_of(std::string_view message) {
  std::pair<std::string, double> value;
  for (Fields fields(message); fields.next();) {
    if (fields.field() == kTag) value.first = fields.bytes();
    if (fields.field() == kSimpleValue) {
      value.second = std::bit_cast<float>(static_cast<uint32_t>(fields.number()));
    }
  }
  return value;
}

Scalars event_of(std::string_view message) {
  Scalars scalars;
  for (Fields fields(message); fields.next();) {
    if (fields.field() == kWallTime) scalars.time = std::bit_cast<double>(fields.number());
    if (fields.field() == kStep) scalars.step = static_cast<int64_t>(fields.number());
    if (fields.field() != kSummary) continue;
    for (Fields values(fields.bytes()); values.next();) {
      if (values.field() == kSummaryValue) scalars.values.push_back(value_of(values.bytes()));
    }
  }
  return scalars;
}

uint64_t number_at(std::string_view bytes, size_t at, int size) {
  uint64_t value = 0;
  for (int i = 0; i < size; ++i) {
    const auto byte = static_cast<unsigned char>(bytes[at + static_cast<size_t>(i)]);
    value |= static_cast<uint64_t>(byte) << (8 * i);
  }
  return value;
}

}  // namespace

std::string event_file_head(double time) {
  std::string event = event_at(time);
  put_bytes(event, kFileVersion, "brain.Event:2");
  return record_of(event);
}

std::string event_record(const Scalars& scalars) {
  std::string summary;
  for (const auto& [tag, number] : scalars.values) {
    std::string value;
    put_bytes(value, kTag, tag);
    put_key(value, kSimpleValue, kFixed32);
    put_fixed(value, std::bit_cast<uint32_t>(static_cast<float>(number)), 4);
    put_bytes(summary, kSummaryValue, value);
  }
  std::string event = event_at(scalars.time);
  put_key(event, kStep, kVarint);
  put_varint(event, static_cast<uint64_t>(scalars.step));
  put_bytes(event, kSummary, summary);
  return record_of(event);
}

std::string event_file_name(double time) {
  return fmt::format("{}{:.0f}.tessera", kEventFilePrefix, std::floor(time));
}

std::vector<Scalars> read_event_file(std::string_view bytes) {
  constexpr size_t kHead = 12, kTail = 4;
  std::vector<Scalars> events;
  for (size_t at = 0; at < bytes.size();) {
    require_config(bytes.size() - at >= kHead + kTail, "byte {}: a record that is cut off", at);
    const uint64_t size = number_at(bytes, at, 8);
    require_config(number_at(bytes, at + 8, 4) == masked(crc32c(bytes.substr(at, 8))),
                   "byte {}: the check sum of a length is another", at);
    require_config(size <= bytes.size() - at - kHead - kTail, "byte {}: a record that is cut off",
                   at);
    const std::string_view data = bytes.substr(at + kHead, static_cast<size_t>(size));
    require_config(number_at(bytes, at + kHead + data.size(), 4) == masked(crc32c(data)),
                   "byte {}: the check sum of a record is another", at);
    Scalars scalars = event_of(data);
    if (!scalars.values.empty()) events.push_back(std::move(scalars));
    at += kHead + size + kTail;
  }
  return events;
}

namespace {

constexpr std::string_view kOfSet = "valid.";

// "valid.NAME.loss" as "valid/loss NAME": the sets of one number stand side by side.
std::string set_tag(const std::string& key) {
  const size_t last = key.rfind('.');
  if (last < kOfSet.size()) return "valid/" + key.substr(kOfSet.size());
  return "valid/" + key.substr(last + 1) + " " + key.substr(kOfSet.size(), last - kOfSet.size());
}

}  // namespace

Scalars scalars_of(const MetricsLine& line) {
  Scalars scalars;
  scalars.step = line.step;
  if (const double* time = line.find("time")) scalars.time = *time;
  for (const auto& [key, tag] : kTags) {
    const double* value = line.find(key);
    if (value != nullptr) scalars.values.emplace_back(tag, *value);
  }
  for (const auto& [key, value] : line.values) {
    if (key.starts_with(kOfSet)) scalars.values.emplace_back(set_tag(key), value);
  }
  return scalars;
}

}  // namespace tessera
