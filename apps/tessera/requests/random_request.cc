#include "requests/random_request.h"

#include <fmt/format.h>

#include <array>

#include "cost/hardware/catalogue.h"
#include "requests/random_text.h"
#include "spec/catalogue/model_catalogue.h"

namespace tessera::testing {
namespace {

constexpr const char* kRun = "run.toml";
constexpr const char* kModel = "model.toml";
constexpr const char* kCluster = "cluster.toml";
constexpr const char* kOther = "other.toml";

void add(Request& request, std::string word) { request.words.push_back(std::move(word)); }

void add_sometimes(Request& request, int64_t one_in, const char* word, Dice& dice) {
  if (dice.one_in(one_in)) add(request, word);
}

// "--tp=4"; together, so that a value may begin with a dash.
void add_size(Request& request, const char* flag, int64_t largest_power, Dice& dice) {
  constexpr std::array<std::string_view, 12> kNonsense = {"0",
                                                          "-1",
                                                          "",
                                                          "x",
                                                          "1000000000000000000",
                                                          "9223372036854775807",
                                                          "99999999999999999999",
                                                          "1e3",
                                                          "1.5",
                                                          "3",
                                                          "0x10",
                                                          "nan"};
  const std::string value = dice.one_in(30)
                                ? std::string(dice.pick(kNonsense))
                                : std::to_string(int64_t{1} << dice.below(largest_power + 1));
  add(request, fmt::format("{}={}", flag, value));
}

void add_file(Request& request, const char* name, std::string text, Dice& dice) {
  request.files[name] = dice.one_in(3) ? spoiled(std::move(text), dice) : std::move(text);
}

// A place to write to that mostly is one.
void add_output(Request& request, const char* flag, const char* name, Dice& dice) {
  const bool nowhere = dice.one_in(20);
  request.may_fail = request.may_fail || nowhere;
  add(request, flag);
  add(request, nowhere ? fmt::format("nowhere/{}", name) : name);
}

std::string misspelt(std::string name, Dice& dice) {
  name.erase(static_cast<size_t>(dice.below(static_cast<int64_t>(name.size()))), 1);
  return name;
}

void add_model(Request& request, Dice& dice) {
  add(request, "--model");
  if (dice.one_in(3)) {
    add(request, kModel);
    add_file(request, kModel, random_model_file(dice), dice);
    if (dice.one_in(3)) add_file(request, kOther, random_model_file(dice), dice);
    return;
  }
  const std::string name(dice.pick(model_names()));
  add(request, dice.one_in(15) ? misspelt(name, dice) : name);
}

std::string cluster_word(Request& request, int64_t largest_power, Dice& dice) {
  if (dice.one_in(3)) {
    add_file(request, kCluster, random_cluster_file(dice), dice);
    if (dice.one_in(4)) add_file(request, kOther, random_cluster_file(dice), dice);
    return kCluster;
  }
  constexpr std::array<std::string_view, 8> kNonsense = {
      "h100-0", "h100--8", "h100-",  "h100-1000000000000000000", "h100-99999999999999999999",
      "-8",     "h100-3",  "cluster"};
  if (dice.one_in(15)) return std::string(dice.pick(kNonsense));
  const std::string name(dice.pick(cluster_names()));
  if (dice.one_in(15)) return misspelt(name, dice);
  return fmt::format("{}-{}", name, int64_t{1} << dice.below(largest_power + 1));
}

void add_cluster(Request& request, int64_t largest_power, Dice& dice) {
  add(request, "--cluster");
  add(request, cluster_word(request, largest_power, dice));
}

// One size that is far too large: it must be planned without being written down, or refused.
void add_too_much(Request& request, Dice& dice) {
  constexpr std::array<std::string_view, 4> kSizes = {"model.layers", "train.seq_len",
                                                      "train.micro_batch", "train.global_batch"};
  constexpr std::array<std::string_view, 3> kManyRanks = {"dp=1024,tp=2", "dp=4096", "pp=4,dp=512"};
  if (dice.one_in(5)) {
    add(request, fmt::format("--mesh={}", dice.pick(kManyRanks)));
  } else {
    add(request, "--set");
    add(request, fmt::format("{}={}", dice.pick(kSizes), int64_t{1} << (8 + dice.below(24))));
  }
  if (dice.one_in(2)) {
    add(request, "--set");
    add(request, "train.global_batch=0");
  }
}

// "--set" overrides and a "--mesh" for a run file of a small model; at most 8 ranks.
void add_overrides(Request& request, Dice& dice) {
  constexpr std::array<std::string_view, 12> kSizes = {
      "model.layers",       "model.heads",      "model.kv_heads",    "model.head_dim",
      "model.ffn",          "model.vocab",      "train.micro_batch", "train.global_batch",
      "parallel.bucket_mb", "train.loss_chunk", "model.experts",     "parallel.virtual_stages"};
  constexpr std::array<std::string_view, 16> kWords = {"parallel.schedule=gpipe",
                                                       "parallel.schedule=zb-h1",
                                                       "parallel.schedule=interleaved",
                                                       "parallel.schedule=dualpipe-v",
                                                       "parallel.schedule=zb-v",
                                                       "parallel.schedule=pipedream-2bw",
                                                       "parallel.recompute=full",
                                                       "parallel.recompute=every-2",
                                                       "model.norm=layer",
                                                       "model.family=gpt2",
                                                       "parallel.cp_kind=ulysses",
                                                       "model.qk_norm=true",
                                                       "train.dtype=bf16",
                                                       "model.kv_rank=8",
                                                       "model.preset=gpt2",
                                                       "parallel.sequence_parallel=true"};
  constexpr std::array<std::string_view, 18> kMeshes = {
      "dp=2",      "tp=2",           "dp=2,tp=2",     "pp=2",      "fsdp=4",     "cp=2",
      "pp=2,dp=2", "dp=2,zero=1",    "fsdp=2,zero=2", "tp=3",      "dp=0",       "tp=-1",
      "ep=2",      "dp=99999999999", "dp=2,dp=2",     "pp=2,tp=2", "pp=4,zero=", "xp=2"};
  for (int64_t more = dice.below(4); more > 0; --more) {
    add(request, "--set");
    if (dice.one_in(3)) {
      add(request, std::string(dice.pick(kWords)));
    } else {
      const std::string value =
          dice.one_in(6) ? nonsense_toml(dice) : fmt::format("{}", 1 + dice.below(8));
      add(request, fmt::format("{}={}", dice.pick(kSizes), value));
    }
  }
  if (dice.one_in(2)) add(request, fmt::format("--mesh={}", dice.pick(kMeshes)));
  if (dice.one_in(64)) add_too_much(request, dice);
}

// A month with failures instead of a step; mostly with --mtbf, without which nothing goes.
void add_failures(Request& request, Dice& dice) {
  constexpr std::array<const char*, 14> kFlags = {
      "--days=1",       "--days=0",       "--days=4000",   "--save-every=10",  "--save-every=1h",
      "--save-every=0", "--save=30s",     "--restart=1h",  "--restart=-1",     "--spares=1",
      "--spares=-1",    "--repair=1e400", "--repair=300d", "--seed=8589934592"};
  constexpr std::array<const char*, 4> kMtbf = {"--mtbf=50000h", "--mtbf=1h", "--mtbf=1e-9",
                                                "--mtbf=99999999999h"};
  if (!dice.one_in(8)) add(request, dice.pick(kMtbf));
  for (int64_t more = dice.below(4); more > 0; --more) add(request, dice.pick(kFlags));
}

Request run_request(const char* command, Dice& dice) {
  Request request;
  request.words = {command, kRun};
  add_file(request, kRun, random_run_file(dice), dice);
  add_overrides(request, dice);
  return request;
}

}  // namespace

Request random_plan(Dice& dice) {
  constexpr std::array<const char*, 4> kSystems = {"--emit=megatron", "--emit=torchtitan",
                                                   "--emit=deepspeed", "--emit=excel"};
  Request request = run_request("plan", dice);
  add_sometimes(request, 2, "--json", dice);
  add_sometimes(request, 3, "--check", dice);
  if (dice.one_in(6)) add(request, dice.pick(kSystems));
  if (dice.one_in(12)) add_output(request, "--svg", "plan.svg", dice);
  if (dice.one_in(12)) add_output(request, "--placements", "placements.svg", dice);
  if (dice.one_in(12)) add(request, "--program");
  if (dice.one_in(24)) add_size(request, "--rank", 3, dice);
  if (dice.one_in(4)) add_cluster(request, 4, dice);
  return request;
}

Request random_cluster_plan(Dice& dice) {
  Request request;
  request.words = {"plan"};
  add_model(request, dice);
  add_cluster(request, 10, dice);
  for (const char* flag : {"--tp", "--pp", "--fsdp", "--cp", "--ep", "--dp", "--micro-batch"}) {
    if (dice.one_in(4)) add_size(request, flag, 3, dice);
  }
  if (dice.one_in(4)) add_size(request, "--zero", 1, dice);
  if (dice.one_in(6)) add_size(request, "--virtual-stages", 2, dice);
  if (dice.one_in(3)) add_size(request, "--seq-len", 13, dice);
  if (dice.one_in(4)) add_size(request, "--global-batch", 10, dice);
  if (dice.one_in(6)) add_size(request, "--tokens", 40, dice);
  if (dice.one_in(10)) {
    constexpr std::array<const char*, 8> kFailures = {
        "--mtbf-device=50000h", "--mtbf-device=1s", "--mtbf-device=0", "--save=30s", "--save=-1",
        "--restart=5min",       "--restart=1e300",  "--restart=x"};
    add(request, dice.pick(kFailures));
  }
  constexpr std::array<const char*, 11> kWords = {
      "--schedule=zb-v",  "--schedule=interleaved", "--schedule=x",        "--recompute=full",
      "--recompute=none", "--recompute=every-0",    "--dtype=f16",         "--sequence-parallel",
      "--emit=megatron",  "--emit=deepspeed",       "--schedule=pipedream"};
  for (int64_t more = dice.below(3); more > 0; --more) add(request, dice.pick(kWords));
  add_sometimes(request, 2, "--json", dice);
  add_sometimes(request, 4, "--check", dice);
  if (dice.one_in(12)) add_output(request, "--svg", "plan.svg", dice);
  return request;
}

Request random_serve_plan(Dice& dice) {
  constexpr std::array<const char*, 12> kWords = {
      "--dtype=f32",        "--dtype=bf16",      "--dtype=fp8",      "--memory-gib=2",
      "--memory-gib=0.001", "--memory-gib=-1",   "--page=12",        "--page=64",
      "--threads=3",        "--max-context=100", "--max-context=8k", "--mesh=tp=2,pp=2"};
  Request request;
  request.words = {"plan"};
  add_model(request, dice);
  request.words[1] = "--serve";
  add_cluster(request, 7, dice);
  for (const char* flag : {"--tp", "--pp"}) {
    if (dice.one_in(2)) add_size(request, flag, 3, dice);
  }
  if (dice.one_in(8)) add_size(request, "--ep", 2, dice);
  if (dice.one_in(4)) add_size(request, "--token-budget", 12, dice);
  if (dice.one_in(4)) add_size(request, "--max-sequences", 9, dice);
  for (int64_t more = dice.below(3); more > 0; --more) add(request, dice.pick(kWords));
  add_sometimes(request, 40, "--sequence-parallel", dice);
  add_sometimes(request, 2, "--json", dice);
  add_sometimes(request, 4, "--check", dice);
  if (dice.one_in(12)) add_output(request, "--svg", "plan.svg", dice);
  return request;
}

Request random_simulation(Dice& dice) {
  constexpr std::array<const char*, 12> kSlow = {"rank=0,factor=1.3",
                                                 "rank=1,factor=2",
                                                 "factor=2,rank=1",
                                                 "rank=9999999,factor=2",
                                                 "rank=0,factor=nan",
                                                 "rank=0,factor=0",
                                                 "rank=-1,factor=2",
                                                 "rank=0,factor=1e400",
                                                 "rank=0.5,factor=2",
                                                 "rank=0",
                                                 "",
                                                 "rank=0,factor=2,rank=0"};
  constexpr std::array<const char*, 8> kLost = {
      "rank=0,at=0.5",  "rank=1,at=0",    "rank=1,at=1", "rank=0,at=2",
      "rank=0,at=-inf", "rank=77,at=0.5", "at=0.5",      "rank=0,at=1e-320"};
  Request request = run_request("simulate", dice);
  if (dice.one_in(3)) {
    add(request, "--schedule-only");
    if (dice.one_in(8)) add_output(request, "--csv", "schedule.csv", dice);
  } else {
    if (dice.one_in(3)) add_cluster(request, 4, dice);
    for (int64_t more = dice.below(3); more > 0; --more) {
      add(request, fmt::format("--slow={}", dice.pick(kSlow)));
    }
    if (dice.one_in(5)) add(request, fmt::format("--lost={}", dice.pick(kLost)));
    add_sometimes(request, 6, "--all-ranks", dice);
    if (dice.one_in(6)) add_failures(request, dice);
    if (dice.one_in(8)) add_output(request, "--trace", "step.json", dice);
  }
  if (dice.one_in(8)) add_output(request, "--svg", "step.svg", dice);
  add_sometimes(request, 2, "--json", dice);
  return request;
}

Request random_search(Dice& dice) {
  Request request;
  request.words = {"search"};
  add_model(request, dice);
  add_cluster(request, 5, dice);
  add_size(request, "--global-batch", 6, dice);
  add_size(request, "--seq-len", 12, dice);
  for (const char* flag : {"--tp", "--pp", "--dp", "--cp", "--ep", "--micro-batch", "--top"}) {
    if (dice.one_in(8)) add_size(request, flag, 3, dice);
  }
  if (dice.one_in(8)) add_size(request, "--zero", 1, dice);
  constexpr std::array<const char*, 5> kObjectives = {"--objective=time", "--objective=memory",
                                                      "--objective=cost", "--objective=fun",
                                                      "--attention=unfused"};
  if (dice.one_in(2)) add(request, dice.pick(kObjectives));
  add_sometimes(request, 3, "--pareto", dice);
  add_sometimes(request, 2, "--json", dice);
  add(request, dice.one_in(2) ? "--threads=1" : "--threads=2");
  if (dice.one_in(8)) add_output(request, "--out", "plans", dice);
  return request;
}

Request random_presets(Dice& dice) {
  constexpr std::array<const char*, 6> kKinds = {"models",  "devices",  "clusters",
                                                 "engines", "clustres", ""};
  Request request;
  request.words = {"presets", dice.pick(kKinds)};
  add_sometimes(request, 2, "--json", dice);
  return request;
}

Request random_request(Dice& dice) {
  const int64_t kind = dice.below(100);
  if (kind < 1) return random_presets(dice);
  if (kind < 6) return random_published(dice);
  if (kind < 16) return random_search(dice);
  if (kind < 36) return random_plan(dice);
  if (kind < 56) return random_simulation(dice);
  if (kind < 62) return random_cluster_plan(dice);
  if (kind < 66) return random_serve_plan(dice);
  if (kind < 78) return random_show(dice);
  if (kind < 81) return random_vary(dice);
  return random_explain(dice);
}

}  // namespace tessera::testing
