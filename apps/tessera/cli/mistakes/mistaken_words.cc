#include "cli/mistakes/mistaken_words.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string_view>
#include <vector>

#include "base/text/text.h"
#include "cli/flags.h"
#include "cli/help.h"
#include "cli/mistakes/foreign_flags.h"
#include "spec/foreign_names.h"

namespace tessera {
namespace {

struct ForeignCommand {
  std::string_view words;  // with commas
  std::string_view here;
};
constexpr ForeignCommand kCommands[] = {
    {"run,start,launch,fit,pretrain,finetune,learn,training", "train"},
    {"estimate,memory,predict,size,cost,fits,dry-run", "plan"},
    {"optimize,optimise,tune,autotune,find,best", "search"},
    {"sample,infer,inference,complete,predict-text,prompt,text", "generate"},
    {"check,test,compare,validate", "verify"},
    {"timeline,trace,profile,schedule", "simulate"},
    {"list,ls,models,devices,clusters,catalogue,catalog", "presets"},
    {"info,env,status,diagnose,system", "doctor"},
    {"plot,logs,log,curves,tensorboard,watch", "metrics"},
    {"calc,calculate,formula,theory", "explain"},
    {"benchmark,measure", "bench"},
    {"server,api,host,deploy,vllm,endpoint", "serve"},
    {"talk,ask,converse,repl,interact", "chat"},
    {"evaluate,evaluation,score,perplexity,lm-eval", "eval"},
    {"export,convert,save,to-hf,hf", "export-hf"},
    {"checkpoints,ckpt", "checkpoint"},
    {"tokenize,tokens,tokenizer,prepare,preprocess,dataset", "data"},
    {"ui,web,dashboard,gui", "studio"},
};

std::string checkpoint_command_meant(std::string_view word) {
  if (word == "list") return "; here it is 'tessera checkpoint ls'";
  if (word == "rm" || word == "delete" || word == "remove" || word == "prune") {
    return "; a checkpoint is a folder: remove it as one; checkpoint.keep says how many stay";
  }
  if (word == "convert") return "; here it is 'reshard' (another mesh) or 'tessera export-hf'";
  return "";
}

bool has_flag(const CLI::App& command, const std::string& name) {
  return command.get_option_no_throw(name) != nullptr;
}

// A name as spec/foreign_names.h spells it: "--max-new-tokens" is "max_new_tokens".
std::string spelt(std::string_view name) {
  while (name.starts_with('-')) name.remove_prefix(1);
  std::string text = lower_case(name);
  std::replace(text.begin(), text.end(), '-', '_');
  return text;
}

// The flag of `command`, or else the --set, that gives a key its value.
std::string way_to_set(const CLI::App& command, const std::string& key, std::string_view value) {
  std::string flag = "--" + key.substr(key.rfind('.') + 1);
  std::replace(flag.begin(), flag.end(), '_', '-');
  if (has_flag(command, flag)) return flag;
  return has_flag(command, "--set") ? fmt::format("--set {}={}", key, value) : "";
}

// "bench serve": without the name of the program.
std::string words_of(const CLI::App& command) {
  const std::string name = full_name(command);
  return name.substr(std::min(name.find(' '), name.size() - 1) + 1);
}

bool takes_run_file(const CLI::App& command) { return has_flag(command, "run_file"); }

}  // namespace

std::string flags_there_are(const CLI::App& command) {
  constexpr size_t kMost = 12;
  std::vector<std::string> names;
  for (const CLI::Option* option : visible_options(command)) {
    const bool help = option->check_lname("help");
    if (!option->get_lnames().empty() && !help)
      names.push_back("--" + option->get_lnames().front());
  }
  if (names.empty() || names.size() > kMost) return "";
  return fmt::format("; there is {}", fmt::join(names, ", "));
}

std::string flag_meant(const CLI::App& command, const std::string& name) {
  const std::string small = spelt(name);
  if (names_run_file(small) && takes_run_file(command)) {
    return fmt::format("; the run file goes without a flag: {} RUN.toml", full_name(command));
  }
  const std::string_view advice = foreign_flag_advice(words_of(command), small);
  if (!advice.empty()) return fmt::format("; {}", advice);
  if (small.starts_with("no_") && !key_called(small.substr(3)).empty() &&
      has_flag(command, "--set")) {
    return fmt::format("; to turn it off: --set {}=false", key_called(small.substr(3)));
  }
  const std::string key = key_called(small);
  const std::string way = key.empty() ? "" : way_to_set(command, key, "VALUE");
  return way.empty() ? "" : fmt::format("; here it is {}", way);
}

std::string command_meant(const CLI::App& command, const std::string& word) {
  const std::string small = lower_case(word);
  if (word.ends_with(".toml") && command.get_parent() == nullptr) {
    return fmt::format("; 'tessera plan {0}' shows what it needs, 'tessera train {0}' runs it",
                       word);
  }
  if (command.get_name() == "data" && small.starts_with("token")) {
    return "; 'tessera data tokens' shows the tokens of a text, 'tessera data tokenizer train' "
           "makes a "
           "tokenizer";
  }
  if (command.get_name() == "tokenizer") {
    return "; 'tessera data tokenizer train TEXT --out DIR' makes one";
  }
  if (command.get_name() == "checkpoint") return checkpoint_command_meant(small);
  if (command.get_parent() != nullptr) return "";
  for (const ForeignCommand& one : kCommands) {
    const std::vector<std::string_view> words = split(one.words, ',');
    if (std::find(words.begin(), words.end(), small) == words.end()) continue;
    return fmt::format("; here it is 'tessera {}'", one.here);
  }
  return "";
}

std::string argument_meant(const CLI::App& command, const std::string& word) {
  if (word.ends_with(".toml") && takes_run_file(command)) {
    const bool taken = command.get_option_no_throw("run_file")->count() > 0;
    return taken ? "; one run file at a time"
                 : fmt::format("; it goes after the command: {} {}", full_name(command), word);
  }
  const size_t equals = word.find('=');
  if (equals != std::string::npos) {
    const std::string key = key_called(word.substr(0, equals));
    const std::string way = key.empty() ? "" : way_to_set(command, key, word.substr(equals + 1));
    if (way.starts_with("--set")) {
      return fmt::format("; a key is changed by {}, a mesh has commas and no spaces", way);
    }
    if (!way.empty()) return fmt::format("; write {} {}", way, word.substr(equals + 1));
  }
  if (has_flag(command, "--run") && has_flag(command, "--prompt")) {
    return "; the run goes after --run, a text of several words between quotes: --run DIR --prompt "
           "\"TEXT\"";
  }
  if (word.ends_with(".toml")) return "; it takes no run file" + flags_there_are(command);
  return "; it takes no more: a value with spaces goes between quotes" + flags_there_are(command);
}

}  // namespace tessera
