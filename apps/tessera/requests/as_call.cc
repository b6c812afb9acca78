#include "requests/as_call.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "api/show/topic.h"
#include "base/text/parse_real.h"

namespace tessera::testing {
namespace {

using Words = std::vector<std::string>;

template <size_t kSize>
bool is_one_of(const std::string& word, const std::array<const char*, kSize>& words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

constexpr std::array<const char*, 5> kMethods = {"plan", "search", "simulate", "explain",
                                                 "presets"};
constexpr std::array<const char*, 7> kOnlyFlags = {"--svg",     "--trace", "--csv",       "--out",
                                                   "--program", "--rank",  "--placements"};
constexpr std::array<const char*, 5> kSwitches = {"--no-contention", "--all-ranks", "--pareto",
                                                  "--sequence-parallel", "--schedule-only"};
constexpr std::array<const char*, 13> kTexts = {
    "serve",     "engine", "model",     "cluster",   "mesh",   "schedule", "dtype",
    "recompute", "lost",   "objective", "attention", "system", "run_file"};
constexpr std::array<const char*, 3> kLists = {"set", "slow", "vary"};

std::string key_of(const std::string& flag) {
  std::string key = flag == "--emit" ? "system" : flag.substr(flag.find_first_not_of('-'));
  std::replace(key.begin(), key.end(), '-', '_');
  return key;
}

// What is a number on the command line is one in JSON; anything else stays a text.
nlohmann::json value_of(const std::string& key, const std::string& text) {
  if (is_one_of(key, kTexts)) return text;
  int64_t whole = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), whole);
  if (error == std::errc() && stop == text.data() + text.size()) return whole;
  const std::optional<double> real = whole_real(text);
  const bool is_real = key == "usd_per_hour" || key == "days" || key == "memory_gib";
  if (is_real && real.has_value()) return *real;
  return text;
}

bool is_utf8(const std::string& bytes) {
  using Handler = nlohmann::json::error_handler_t;
  return nlohmann::json(bytes).dump(-1, ' ', false, Handler::ignore) ==
         nlohmann::json(bytes).dump(-1, ' ', false, Handler::replace);
}

// A topic and the values of its flags.
Call explain_call(const Words& words) {
  Call call{"explain", {{"topic", words.at(1)}}};
  for (size_t i = 2; i < words.size(); ++i) {
    if (words[i] == "--json") continue;
    const size_t equals = words[i].find('=');
    const std::string name = words[i].substr(2, equals - 2);
    // A flag without a value has none to give, which is refused like one that is not known.
    if (equals == std::string::npos) {
      call.request["given"][name] = nullptr;
    } else {
      call.request["given"][name] = words[i].substr(equals + 1);
    }
  }
  return call;
}

const ShowField* field_of(const std::string& topic_name, const std::string& key) {
  for (const ShowTopic& topic : show_topics()) {
    if (topic.name != topic_name) continue;
    for (const ShowField& field : topic.fields) {
      if (field.name == key) return &field;
    }
  }
  return nullptr;
}

// Numbers as numbers and their lists as lists; what is a text in a topic stays one.
nlohmann::json shown_value(const ShowField* field, const std::string& text) {
  using Kind = ShowField::Kind;
  const bool is_text =
      field != nullptr &&
      (field->kind == Kind::kText || field->kind == Kind::kChoice || field->kind == Kind::kJson);
  const auto list = nlohmann::json::parse("[" + text + "]", nullptr, false);
  if (is_text || list.is_discarded()) return text;
  if (list.size() > 1) return list;
  // A size is a whole number or a text.
  const bool is_size = field != nullptr && field->kind == Kind::kSize;
  const bool is_number =
      list.size() == 1 && (is_size ? list[0].is_number_integer() : list[0].is_number());
  return is_number ? list[0] : nlohmann::json(text);
}

// A topic is a method; its lists are numbers with commas between.
std::optional<Call> show_call(const Words& words) {
  Call call{words.at(1), nlohmann::json::object()};
  for (size_t i = 2; i < words.size(); ++i) {
    if (words[i] == "--json") continue;
    const size_t equals = words[i].find('=');
    const bool together = equals != std::string::npos;
    const std::string key = key_of(words[i].substr(0, equals));
    const ShowField* field = field_of(call.method, key);
    if (field != nullptr && field->kind == ShowField::Kind::kTruth && !together) {
      call.request[key] = true;
      continue;
    }
    if (!together && i + 1 == words.size()) {
      // A flag that no topic has, which is refused like a key that is not known.
      if (field == nullptr) call.request[key] = nullptr;
      return field == nullptr ? std::optional(call) : std::nullopt;
    }
    const std::string text = together ? words[i].substr(equals + 1) : words[++i];
    if (text.empty()) return std::nullopt;
    if (field != nullptr && field->kind == ShowField::Kind::kTexts) {
      call.request[key].push_back(text);
    } else {
      call.request[key] = shown_value(field, text);
    }
  }
  return call;
}

}  // namespace

std::optional<Call> as_call(const Request& request) {
  const Words& words = request.words;
  if (words.size() > 1 && words.front() == "show") return show_call(words);
  if (words.empty() || !is_one_of(words.front(), kMethods)) return std::nullopt;
  if (words.front() == "explain") return explain_call(words);
  Call call{words.front(), nlohmann::json::object()};
  bool checks = false;
  for (size_t i = 1; i < words.size(); ++i) {
    const size_t equals = words[i].find('=');
    const bool is_flag = words[i].starts_with("--");
    const std::string flag = is_flag ? words[i].substr(0, equals) : words[i];
    if (is_one_of(flag, kOnlyFlags)) return std::nullopt;
    checks = checks || flag == "--check";
    if (flag == "--json" || flag == "--check") continue;
    if (!is_flag) {
      call.request[call.method == "presets" ? "kind" : "run_file"] = words[i];
    } else if (is_one_of(flag, kSwitches)) {
      call.request[key_of(flag)] = true;
    } else {
      const bool together = equals != std::string::npos;
      if (!together && i + 1 == words.size()) return std::nullopt;
      const std::string text = together ? words[i].substr(equals + 1) : words[++i];
      // A command line takes it for an unset variable; in a request it is what leaving out is.
      if (text.empty()) return std::nullopt;
      const std::string key = key_of(flag);
      if (is_one_of(key, kLists)) {
        call.request[key].push_back(text);
      } else {
        call.request[key] = value_of(key, text);
      }
    }
  }
  if (call.request.contains("system")) call.method = "emit";
  // A command refuses to check what it does not plan, or to say how long it takes; a call has
  // nothing to say so.
  if (call.method == "emit" && (checks || call.request.contains("tokens"))) return std::nullopt;
  if (call.request.contains("vary")) call.method = "vary";
  if (const auto model = call.request.find("serve"); model != call.request.end()) {
    const nlohmann::json name = *model;
    call.request.erase("serve");
    call.request["model"] = name;
    call.method = "serve_plan";
  }
  return call;
}

Request with_json(Request request) {
  Words& words = request.words;
  if (std::find(words.begin(), words.end(), "--json") == words.end()) words.emplace_back("--json");
  return request;
}

std::optional<Call> as_whole_call(const Request& request) {
  std::optional<Call> call = as_call(with_json(request));
  if (!call.has_value()) return std::nullopt;
  if (!std::all_of(request.words.begin(), request.words.end(), is_utf8)) return std::nullopt;
  for (const auto& [name, text] : request.files) {
    if (!is_utf8(text)) return std::nullopt;
    call->request["files"][name] = text;
  }
  return call;
}

}  // namespace tessera::testing
