#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "api/show/topic.h"
#include "base/text/text.h"
#include "requests/random_request.h"
#include "requests/random_text.h"

namespace tessera::testing {
namespace {

using Kind = ShowField::Kind;

constexpr const char* kRun = "run.toml";

constexpr std::array<std::string_view, 12> kNonsense = {
    "0",    "-1",     "abc", "nan", "1e18", "99999999999999999999",
    "0x10", "1,2,,3", "[",   "1.5", "-0.0", "\xc3\xa4"};

// Sensible texts of fields that are no numbers, by name; other fields take nonsense.
struct Texts {
  std::string_view field;
  std::string_view values;  // "a|b"
};
constexpr std::array<Texts, 15> kTexts = {{
    {"schedule", "naive|gpipe|1f1b|interleaved|zb-h1|zb-h2|zb-v|dualpipe-v|pipedream|1f1"},
    {"algorithm", "ring|tree|direct|naive|hierarchical|doubling|halving"},
    {"values", "[[1,2],[3,4]]|[[1],[2],[3]]|[1,2]|[[0.5,-1,3,8],[1,1,1,1]]"},
    {"mesh", "tp=2|dp=2,tp=2|pp=2|fsdp=4|cp=2|ep=2|pp=2,dp=2|tp=0"},
    {"order", "tp,cp,ep,fsdp,dp,pp|pp,dp,tp|dp,tp|tp,tp"},
    {"cluster", "h100-8|h100-64|a100-16|tpu-v4|h100-0|llama3-24k|h101"},
    {"model", "llama-3-8b|gpt2|mixtral-8x7b|tiny-3m|llama-3-405b|gpt-2"},
    {"recipe", "llama-3-405b-8k|llama"},
    {"engine", "tessera|megatron|x"},
    {"recompute", "none|norms|light|selective|full|every-2|some"},
    {"dtype", "bf16|f32|f64|f16"},
    {"slow", "rank=0,factor=1.3|rank=1,factor=2|rank=0,factor=0|rank=0"},
    {"lost", "rank=0,at=0.5|rank=1,at=0|rank=77,at=0.5"},
    {"set", "train.micro_batch=1|parallel.recompute=full|model.layers=3|model.layers=x"},
    {"attention", "fused|unfused|x"},
}};

std::string text_value(const ShowField& field, Dice& dice) {
  const auto* found = std::find_if(kTexts.begin(), kTexts.end(),
                                   [&](const Texts& texts) { return texts.field == field.name; });
  // In a topic without a run a mesh is JSON.
  if (field.kind == Kind::kJson && field.name == "mesh") return R"({"tp": 2, "dp": 4})";
  if (found == kTexts.end()) return std::string(dice.pick(kNonsense));
  return std::string(dice.pick(split(found->values, '|')));
}

std::string real_value(Dice& dice) {
  return fmt::format("{}{}.{}", dice.one_in(8) ? "-" : "", dice.below(9), dice.below(100));
}

// Mostly one that the field takes.
std::string random_value(const ShowField& field, Dice& dice) {
  if (dice.one_in(16)) return std::string(dice.pick(kNonsense));
  switch (field.kind) {
    case Kind::kWhole:
    case Kind::kSize: {
      if (field.name == "zero") return fmt::format("{}", dice.below(4));
      const int64_t largest = field.most >= 64 ? 10 : 5;
      return fmt::format("{}",
                         dice.one_in(3) ? 1 + dice.below(16) : int64_t{1} << dice.below(largest));
    }
    case Kind::kReal:
      return real_value(dice);
    case Kind::kReals: {
      std::string list = real_value(dice);
      for (int64_t more = dice.below(8); more > 0; --more) list += "," + real_value(dice);
      return list;
    }
    case Kind::kChoice:
      return std::string(dice.pick(split(field.choices, '|')));
    default:
      return text_value(field, dice);
  }
}

void add(Request& request, const ShowField& field, Dice& dice) {
  std::string flag = "--" + std::string(field.name);
  std::replace(flag.begin(), flag.end(), '_', '-');
  // Together, so that a value may begin with a dash.
  if (field.kind != Kind::kTruth) flag += "=" + random_value(field, dice);
  request.words.push_back(std::move(flag));
}

bool has_run(const ShowTopic& topic) {
  return std::any_of(topic.fields.begin(), topic.fields.end(),
                     [](const ShowField& field) { return field.name == "run_file"; });
}

// What is compiled or played instruction by instruction takes seconds for a large model.
bool plays_programs(const ShowTopic& topic) {
  return topic.name != "choices" && topic.name != "topology";
}

void add_run(Request& request, const ShowTopic& topic, Dice& dice) {
  constexpr std::array<const char*, 3> kSmall = {"--model=tiny-3m", "--model=gpt2",
                                                 "--model=llama-3.2-1b"};
  constexpr std::array<const char*, 3> kLarge = {"--model=llama-3-405b", "--model=mixtral-8x7b",
                                                 "--model=deepseek-v3"};
  if (dice.one_in(2)) {
    const std::string text = random_run_file(dice);
    request.files[kRun] = dice.one_in(6) ? spoiled(text, dice) : text;
    request.words.push_back(fmt::format("--run-file={}", kRun));
  } else {
    const bool large = !plays_programs(topic) && dice.one_in(2);
    request.words.emplace_back(large ? dice.pick(kLarge) : dice.pick(kSmall));
    request.words.push_back(
        fmt::format("--cluster={}-{}", dice.one_in(2) ? "h100" : "a100", 1 << dice.below(6)));
    request.words.push_back(fmt::format("--global-batch={}", 1 << dice.below(6)));
    request.words.push_back(fmt::format("--seq-len={}", 64 << dice.below(4)));
  }
}

}  // namespace

Request random_show(Dice& dice) {
  const ShowTopic& topic = dice.pick(show_topics());
  Request request;
  request.words = {"show", std::string(topic.name)};
  const bool of_run = has_run(topic);
  if (of_run) add_run(request, topic, dice);
  // A run is refused for any of its keys: the more, the likelier.
  const int64_t one_in = of_run ? 10 : 2;
  for (const ShowField& field : topic.fields) {
    constexpr std::array<std::string_view, 6> kGiven = {"model",        "cluster", "run_file",
                                                        "global_batch", "seq_len", "recipe"};
    if (of_run && std::find(kGiven.begin(), kGiven.end(), field.name) != kGiven.end()) continue;
    if (dice.one_in(one_in)) add(request, field, dice);
  }
  if (dice.one_in(2)) request.words.emplace_back("--json");
  if (dice.one_in(40)) request.words.emplace_back("--no-such-flag");
  return request;
}

Request random_vary(Dice& dice) {
  constexpr std::array<const char*, 7> kVaried = {"--vary=parallel.recompute=none,norms,full",
                                                  "--vary=parallel.tp=1,2,4",
                                                  "--vary=train.micro_batch=1,2",
                                                  "--vary=parallel.zero=0,1,3",
                                                  "--vary=parallel.schedule=1f1b,gpipe,zb-h1",
                                                  "--vary=train.seq_len=64,128",
                                                  "--vary=parallel.tp=2,x"};
  constexpr std::array<const char*, 4> kModels = {"tiny-3m", "gpt2", "llama-3-8b", "mixtral-8x7b"};
  Request request;
  if (dice.one_in(3)) {
    request.words = {"plan", kRun};
    request.files[kRun] = random_run_file(dice);
  } else {
    request.words = {"plan", "--model", dice.pick(kModels)};
  }
  if (!dice.one_in(12)) {
    request.words.push_back(fmt::format("--cluster=h100-{}", 1 << dice.below(5)));
  }
  for (int64_t more = 1 + dice.below(2); more > 0; --more) {
    request.words.emplace_back(dice.pick(kVaried));
  }
  if (dice.one_in(4)) request.words.push_back(fmt::format("--pp={}", 1 << dice.below(3)));
  if (dice.one_in(4)) request.words.emplace_back("--global-batch=16");
  if (dice.one_in(2)) request.words.emplace_back("--json");
  return request;
}

}  // namespace tessera::testing
