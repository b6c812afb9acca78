#include "checkpoint/store/store_json.h"

#include <algorithm>
#include <set>

#include "base/text/text.h"
#include "checkpoint/store/store_error.h"

namespace tessera {
namespace {

using nlohmann::json;

constexpr int kMostDepth = 64;
constexpr size_t kHashDigits = 64;

// Sees what the parser reads: how deep, and which keys.
class Watcher {
 public:
  explicit Watcher(const std::string& file) : file_(file) {}

  bool operator()(int depth, json::parse_event_t event, json& parsed) {
    using Event = json::parse_event_t;
    if (event == Event::object_start || event == Event::array_start) {
      if (depth >= kMostDepth) {
        fail_corrupt(file_, fmt::format("its JSON is nested deeper than {}", kMostDepth));
      }
    }
    if (event == Event::object_start) keys_.emplace_back();
    if (event == Event::object_end) keys_.pop_back();
    if (event == Event::key) {
      const auto& key = parsed.get_ref<const std::string&>();
      if (!keys_.back().insert(key).second) {
        fail_corrupt(file_, fmt::format("its JSON has the key {} twice", in_quotes(key)));
      }
    }
    return true;
  }

 private:
  const std::string& file_;
  std::vector<std::set<std::string>> keys_;  // of the objects around
};

}  // namespace

json parse_store_json(std::string_view text, const std::string& file) {
  // The lexer takes a zero byte for the end of its input, which would hide what follows.
  const size_t zero = text.find('\0');
  if (zero != std::string_view::npos) {
    fail_corrupt(file, fmt::format("its JSON has a zero byte at {}", zero));
  }
  try {
    Watcher watcher(file);
    return json::parse(text, [&](int depth, json::parse_event_t event, json& parsed) {
      return watcher(depth, event, parsed);
    });
  } catch (const json::parse_error& error) {
    fail_corrupt(file, fmt::format("its JSON is not valid near byte {}", error.byte));
  } catch (const json::exception& error) {
    fail_corrupt(file, fmt::format("its JSON is not valid: {}", error.what()));
  }
}

std::string dump_store_json(const json& value) { return value.dump(1) + "\n"; }

void StoreValue::fail(const std::string& reason) const {
  fail_corrupt(*file_, fmt::format("{} {}", place_.empty() ? "it" : place_, reason));
}

StoreValue StoreValue::member(const std::string& key, const json& value) const {
  const std::string shown = is_id(key) ? key : in_quotes(key, 200);
  return {value, *file_, place_.empty() ? shown : place_ + "." + shown};
}

const json& StoreValue::object() const {
  if (!value_->is_object()) fail("is no object");
  return *value_;
}

StoreValue StoreValue::at(const char* key) const {
  const auto found = object().find(key);
  if (found == value_->end()) fail(fmt::format("has no {}", key));
  return member(key, *found);
}

size_t StoreValue::size() const {
  if (!value_->is_array()) fail("is no list");
  return value_->size();
}

StoreValue StoreValue::at(size_t index) const {
  return {value_->at(index), *file_, fmt::format("{}[{}]", place_, index)};
}

int64_t StoreValue::whole(int64_t most) const {
  if (!value_->is_number_unsigned()) fail("is no whole number");
  const auto value = value_->get<uint64_t>();
  if (value > static_cast<uint64_t>(most)) fail(fmt::format("is {}, more than {}", value, most));
  return static_cast<int64_t>(value);
}

const std::string& StoreValue::text() const {
  if (!value_->is_string()) fail("is no text");
  return value_->get_ref<const std::string&>();
}

std::string StoreValue::id() const {
  if (!is_id(text())) fail(fmt::format("is {}, which is no id", in_quotes(text())));
  return text();
}

std::string StoreValue::hash() const {
  const bool digits = text().find_first_not_of("0123456789abcdef") == std::string::npos;
  if (text().size() != kHashDigits || !digits) {
    fail(fmt::format("is {}, which is no SHA-256", in_quotes(text())));
  }
  return text();
}

std::vector<int64_t> StoreValue::sizes() const {
  if (size() > kMostBoxDims) fail(fmt::format("has {} dims, more than {}", size(), kMostBoxDims));
  std::vector<int64_t> values;
  for (size_t i = 0; i < size(); ++i) values.push_back(at(i).whole());
  return values;
}

json head_json(const SaveId& id, int64_t step) {
  const FormatVersion version;
  return {{"format", kFormatName}, {"version", {version.major, version.minor}},
          {"run", id.run},         {"generation", id.generation},
          {"save", id.save},       {"step", step}};
}

FileHead parse_head(const StoreValue& root, const std::string& file) {
  const StoreValue format = root.at("format");
  if (format.text() != kFormatName) {
    format.fail(fmt::format("is {}, not \"{}\"", in_quotes(format.text()), kFormatName));
  }
  const StoreValue numbers = root.at("version");
  if (numbers.size() != 2) numbers.fail("is not [major, minor]");
  FileHead head;
  head.version = {numbers.at(size_t{0}).whole(), numbers.at(size_t{1}).whole()};
  const FormatVersion ours;
  if (head.version.major != ours.major) {
    throw Error(fmt::format("'{}' is of version {}.{} of the format of checkpoints, but this "
                            "Tessera reads version {}: use the Tessera that wrote it",
                            file, head.version.major, head.version.minor, ours.major),
                ExitCode::kVersion);
  }
  head.id = {root.at("run").id(), static_cast<uint64_t>(root.at("generation").whole()),
             root.at("save").id()};
  head.step = root.at("step").whole(kMostStep);
  return head;
}

}  // namespace tessera
