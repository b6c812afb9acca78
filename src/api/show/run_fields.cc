#include "api/show/run_fields.h"

#include <algorithm>
#include <deque>
#include <string>

#include "api/split.h"

namespace tessera {
namespace {

using Kind = ShowField::Kind;

// "--virtual-stages" -> "virtual_stages"; fields only look at their names.
std::string_view kept_name(const char* flag) {
  static std::deque<std::string> names;
  std::string name = std::string(flag).substr(2);
  std::replace(name.begin(), name.end(), '-', '_');
  const auto found = std::find(names.begin(), names.end(), name);
  return found != names.end() ? *found : names.emplace_back(std::move(name));
}

ShowField word_field(const SplitFlags::Word& word) {
  return {kept_name(word.flag), Kind::kText, "", word.help, 0, 0, "", word.kind};
}

std::vector<ShowField> run_fields() {
  static const SplitFlags split;
  std::vector<ShowField> fields = {
      {"model", Kind::kText, "", "a name, a config.json or a model file", 0, 0, "", "NAME|FILE"},
      {"cluster", Kind::kText, "", "a name, such as h100-64, or a file", 0, 0, "", "NAME|FILE"},
      {"recipe", Kind::kText, "", "a published run", 0, 0, "", "NAME|FILE"},
      {"engine", Kind::kText, "", "whose time it is", 0, 0, "", "NAME|FILE"},
      {"run_file", Kind::kText, "", "a run instead of a model", 0, 0, "", "FILE"},
      {"set", Kind::kTexts, "", "another value for a key of the run", 0, 0, "",
       "section.key=value"},
      {"mesh", Kind::kText, "", "the mesh of the run", 0, 0, "", "AXIS=N,…"},
      {"ranks", Kind::kWhole, "", "how many ranks the mesh must have", 1}};
  for (const SplitFlags::Size& size : split.sizes) {
    fields.push_back({kept_name(size.flag), Kind::kSize, "", size.help});
  }
  fields.push_back(
      {"sequence_parallel", Kind::kTruth, "", "split what lies between products over tp as well"});
  for (const SplitFlags::Word& word : split.words) fields.push_back(word_field(word));
  return fields;
}

}  // namespace

std::vector<ShowField> with_run_fields(std::initializer_list<ShowField> own) {
  std::vector<ShowField> fields = run_fields();
  fields.insert(fields.end(), own.begin(), own.end());
  return fields;
}

}  // namespace tessera
