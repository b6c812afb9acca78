#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "api/schema.h"
#include "base/text/text.h"
#include "checkpoint/checkpoint_command.h"
#include "checkpoint/checkpoint_place.h"
#include "checkpoint/safetensors_header.h"
#include "checkpoint/store/compare.h"
#include "checkpoint/store/saves.h"
#include "checkpoint/store/verify_checkpoint.h"
#include "cli/flags.h"
#include "cli/help.h"

namespace tessera {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kColumnsOfFact = 80;

void print_json(const Json& json, Console& console) {
  console.out << json.dump(2, ' ', false, Json::error_handler_t::replace) << '\n';
}

Json document(const char* kind) { return {{"schema_version", kSchemaVersion}, {"kind", kind}}; }

// What a list says of one save. `problem` empty: its three small files are good.
struct ListedSave {
  StoredSave save;
  std::string status;
  int64_t ranks = 0, tensors = 0, bytes = 0;
  std::string problem;
};

ListedSave listed(const FileOps& files, StoredSave save) {
  ListedSave line{.save = std::move(save), .status = "", .problem = ""};
  if (!line.save.committed) {
    line.status = line.save.in_progress ? "in progress" : "incomplete";
    return line;
  }
  try {
    const CheckpointFolder checkpoint = open_checkpoint(files, line.save.folder);
    line.status = line.save.pinned ? "pinned" : "committed";
    line.ranks = std::ssize(checkpoint.manifest.files);
    line.tensors = std::ssize(checkpoint.manifest.tensors);
    line.bytes = checkpoint.manifest.data_bytes();
  } catch (const Error& error) {
    line.status = "damaged";
    line.problem = error.what();
  }
  return line;
}

Json json_of(const ListedSave& line) {
  Json json = {{"folder", line.save.folder}, {"status", line.status}};
  json["step"] = line.save.step < 0 ? Json() : Json(line.save.step);
  json["ranks"] = line.ranks;
  json["tensors"] = line.tensors;
  json["bytes"] = line.bytes;
  if (!line.problem.empty()) json["problem"] = line.problem;
  return json;
}

std::string table_of(const std::vector<ListedSave>& lines) {
  TextTable table({{"checkpoint"},
                   {"status"},
                   {"shards", Align::kRight},
                   {"tensors", Align::kRight},
                   {"size", Align::kRight}});
  for (const ListedSave& line : lines) {
    const bool known = line.ranks > 0;
    table.add_row({line.save.folder, line.status, known ? with_thousands(line.ranks) : "",
                   known ? with_thousands(line.tensors) : "",
                   known ? human_bytes(line.bytes) : ""});
  }
  return table.str();
}

Json json_of(const ManifestTensor& tensor) {
  return {{"name", tensor.name},
          {"dtype", name_of(tensor.type)},
          {"shape", tensor.shape},
          {"chunks", tensor.chunks.size()}};
}

// An object as words, which a narrow terminal may break between: "dp=2 zero=1".
std::string in_words(const Json& value, const std::string& place = "") {
  if (!value.is_object()) {
    const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
    return place.empty() ? text : fmt::format("{}={}", place, text);
  }
  std::string text;
  for (const auto& [key, part] : value.items()) {
    text += text.empty() ? "" : " ";
    text += in_words(part, place.empty() ? key : fmt::format("{}.{}", place, key));
  }
  return text;
}

// `text` in lines of so many columns at most where its words allow it.
std::vector<std::string> lines_of(std::string_view text, size_t columns) {
  std::vector<std::string> lines(1);
  for (const std::string_view word : split(text, ' ')) {
    if (!lines.back().empty() && lines.back().size() + 1 + word.size() > columns) {
      lines.emplace_back();
    }
    if (!lines.back().empty()) lines.back() += ' ';
    lines.back() += word;
  }
  return lines;
}

std::string shown_checkpoint(const CheckpointFolder& checkpoint) {
  const Manifest& manifest = checkpoint.manifest;
  TextTable facts({{checkpoint.folder}, {""}});
  facts.add_row(
      {"format", fmt::format("{}.{}", manifest.head.version.major, manifest.head.version.minor)});
  for (const auto& [key, value] : checkpoint.state.items()) {
    if (key == "format" || key == "version") continue;
    std::string name = key;
    for (const std::string& line : lines_of(in_words(value), kColumnsOfFact)) {
      facts.add_row({std::exchange(name, ""), line});
    }
  }
  facts.add_row(
      {"shards", fmt::format("{} of {} together", with_thousands(std::ssize(manifest.files)),
                             human_bytes(manifest.data_bytes()))});
  TextTable table({{"tensor"}, {"dtype"}, {"shape"}, {"chunks", Align::kRight}});
  for (const ManifestTensor& tensor : manifest.tensors) {
    table.add_row({tensor.name, std::string(name_of(tensor.type)), shape_text(tensor.shape),
                   std::to_string(tensor.chunks.size())});
  }
  return facts.str() + "\n" + table.str();
}

std::string difference_text(const TensorDifference& difference) {
  if (!difference.kind.empty()) return difference.kind;
  return fmt::format("{} of {} elements, by up to {:.6g}", with_thousands(difference.different),
                     with_thousands(difference.elements), difference.largest);
}

std::string difference_table(const CheckpointDifference& difference) {
  std::string text;
  if (!difference.tensors.empty()) {
    TextTable table({{"tensor"}, {"differs in"}});
    for (const TensorDifference& one : difference.tensors) {
      table.add_row({one.tensor, difference_text(one)});
    }
    text = table.str();
  }
  text += fmt::format("{} of {} tensors are the same, bit for bit\n", difference.same_tensors,
                      difference.same_tensors + std::ssize(difference.tensors));
  if (!difference.state.empty()) {
    text += fmt::format("state.json differs in {}\n", fmt::join(difference.state, ", "));
  }
  return text;
}

Json json_of(const CheckpointDifference& difference) {
  Json json = document("checkpoint_difference");
  json["equal"] = difference.equal();
  json["same_tensors"] = difference.same_tensors;
  json["tensors"] = Json::array();
  for (const TensorDifference& one : difference.tensors) {
    Json line = {{"name", one.tensor}};
    if (one.kind.empty()) {
      line["elements"] = one.elements;
      line["different"] = one.different;
      line["largest"] = one.largest;
    } else {
      line["kind"] = one.kind;
    }
    json["tensors"].push_back(std::move(line));
  }
  json["state"] = difference.state;
  return json;
}

using Run = int (*)(const CheckpointOptions& options, Console& console);

struct Verb {
  const char* name;
  HelpText help;
  const char* path;
  Run run;
  bool reads = true;  // one checkpoint, rather than the list of them
};

Command add_verb(CLI::App& parent, const Verb& verb) {
  CLI::App* app = add_command(parent, verb.name, verb.help);
  auto options = std::make_shared<CheckpointOptions>();
  const bool two = std::string_view(verb.name) == "diff";
  must_be_given(add_text(*app, "path", options->path, two ? "A" : "PATH", verb.path));
  if (two) must_be_given(add_text(*app, "other", options->other, "B", "the other"));
  if (std::string_view(verb.name) == "verify") {
    add_switch(*app, "--deep", options->deep, "compare the checksum of every block");
  }
  if (verb.reads) {
    add_switch(*app, "--allow-unchecked", options->allow_unchecked,
               "also a checkpoint whose files of checksums are missing");
  }
  add_switch(*app, "--json", options->json, "print JSON");
  return {app, [options, run = verb.run](Console& console) { return run(*options, console); }};
}

}  // namespace

std::vector<Command> add_checkpoint(CLI::App& root) {
  CLI::App* app =
      add_command(root, "checkpoint",
                  {"List, show, verify, compare and reshard checkpoints.",
                   "tessera checkpoint ls runs/demo", "tessera checkpoint verify --help"});
  constexpr const char* kPath = "a run directory, a folder of checkpoints, or one of them";
  return {
      add_verb(*app, {"ls",
                      {"List the checkpoints of a run.", "tessera checkpoint ls runs/demo",
                       "tessera checkpoint show runs/demo"},
                      "a run directory or a folder of checkpoints",
                      run_checkpoint_ls,
                      /*reads=*/false}),
      add_verb(*app, {"show",
                      {"Show what a checkpoint holds: its state and its tensors.",
                       "tessera checkpoint show runs/demo", "tessera checkpoint verify runs/demo"},
                      kPath,
                      run_checkpoint_show}),
      add_verb(*app,
               {"verify",
                {"Is a checkpoint whole? Names every file and block that is not.",
                 "tessera checkpoint verify runs/demo --deep", "tessera checkpoint ls runs/demo"},
                kPath,
                run_checkpoint_verify}),
      add_verb(*app, {"diff",
                      {"Compare two checkpoints, tensor by tensor, however they were cut.",
                       "tessera checkpoint diff runs/a runs/b", "tessera checkpoint show runs/a"},
                      kPath,
                      run_checkpoint_diff}),
      add_checkpoint_reshard(*app)};
}

int run_checkpoint_ls(const CheckpointOptions& options, Console& console) {
  const CheckpointPlace place = find_checkpoints(options.path);
  std::vector<ListedSave> lines;
  for (StoredSave& save : list_saves(*place.files)) {
    if (!place.folder.empty() && save.folder != place.folder) continue;
    lines.push_back(listed(*place.files, std::move(save)));
  }
  if (options.json) {
    Json json = document("checkpoints");
    json["checkpoints"] = Json::array();
    for (const ListedSave& line : lines) json["checkpoints"].push_back(json_of(line));
    print_json(json, console);
    return 0;
  }
  if (lines.empty()) {
    throw Error(fmt::format("'{}' holds no checkpoint: name a folder with step-... "
                            "folders in it",
                            options.path),
                ExitCode::kAbsent);
  }
  console.out << fitted(console, table_of(lines));
  for (const ListedSave& line : lines) {
    if (!line.problem.empty()) console.err << fitted_err(console, line.problem) << '\n';
  }
  return 0;
}

int run_checkpoint_show(const CheckpointOptions& options, Console& console) {
  const CheckpointPlace place = find_checkpoint(options.path, options.allow_unchecked);
  const CheckpointFolder checkpoint = open_checkpoint(*place.files, place.folder);
  if (!options.json) {
    console.out << fitted(console, shown_checkpoint(checkpoint));
    return 0;
  }
  Json json = document("checkpoint");
  json["folder"] = checkpoint.folder;
  json["state"] = checkpoint.state;
  json["bytes"] = checkpoint.manifest.data_bytes();
  json["shards"] = checkpoint.manifest.files.size();
  json["tensors"] = Json::array();
  for (const ManifestTensor& tensor : checkpoint.manifest.tensors) {
    json["tensors"].push_back(json_of(tensor));
  }
  print_json(json, console);
  return 0;
}

int run_checkpoint_verify(const CheckpointOptions& options, Console& console) {
  CheckpointPlace place = find_checkpoints(options.path);
  if (place.folder.empty()) {
    // The newest that was committed, good or not: its damage is what is asked for.
    for (const StoredSave& save : list_saves(*place.files)) {
      if (save.committed) place.folder = save.folder;
    }
    if (place.folder.empty()) {
      throw Error(fmt::format("'{}' holds no finished checkpoint: name a run directory or a folder "
                              "of checkpoints",
                              options.path),
                  ExitCode::kAbsent);
    }
  }
  const CheckReport report = verify_checkpoint(*place.files, place.folder, options.deep,
                                               /*threads=*/4, options.allow_unchecked);
  const bool ok = report.problems.empty();
  if (options.json) {
    Json json = document("checkpoint_check");
    json.update(Json{{"folder", place.folder}, {"ok", ok}, {"deep", options.deep}});
    json["step"] = report.step < 0 ? Json() : Json(report.step);
    json.update(Json{{"shards", report.files},
                     {"tensors", report.tensors},
                     {"bytes", report.bytes},
                     {"checked_blocks", report.checked_blocks},
                     {"unchecked", report.unchecked}});
    json["problems"] = Json::array();
    for (const CheckProblem& problem : report.problems) {
      json["problems"].push_back(
          {{"code", static_cast<int>(problem.code)}, {"text", problem.text}});
    }
    print_json(json, console);
    return static_cast<int>(report.code());
  }
  if (ok) {
    const std::string text = fmt::format(
        "{} is whole: {} in {}, {}; {}\n", place.folder, count_of(report.tensors, "tensor"),
        count_of(report.files, "shard"), human_bytes(report.bytes),
        options.deep ? fmt::format("{} compared", count_of(report.checked_blocks, "block"))
                     : "sizes, headers and coverage compared; --deep compares every block");
    console.out << fitted(console, text);
    for (const std::string& name : report.unchecked) {
      console.out << fitted(console, name + " has no checksums: what is in it was not compared\n");
    }
    return 0;
  }
  for (const CheckProblem& problem : report.problems) {
    console.err << fitted_err(console, "tessera: " + problem.text) << '\n';
  }
  return static_cast<int>(report.code());
}

int run_checkpoint_diff(const CheckpointOptions& options, Console& console) {
  const bool unchecked = options.allow_unchecked;
  const CheckpointPlace a = find_checkpoint(options.path, unchecked);
  const CheckpointPlace b = find_checkpoint(options.other, unchecked);
  const CheckpointFolder in_a = open_checkpoint(*a.files, a.folder, unchecked);
  const CheckpointFolder in_b = open_checkpoint(*b.files, b.folder, unchecked);
  const CheckpointDifference difference = compare_checkpoints({*a.files, in_a}, {*b.files, in_b});
  if (options.json) {
    print_json(json_of(difference), console);
  } else {
    console.out << fitted(console, difference_table(difference));
  }
  return static_cast<int>(difference.equal() ? ExitCode::kOk : ExitCode::kFailed);
}

}  // namespace tessera
