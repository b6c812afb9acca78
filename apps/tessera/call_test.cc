// `tessera METHOD --json` and call(METHOD, ...) give the same bytes, and refuse the same requests.
#include "api/call.h"

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <set>

#include "base/testing/share.h"
#include "cli/surroundings.h"
#include "requests/answer.h"
#include "requests/as_call.h"

namespace tessera {
namespace {

using testing::Answer;
using testing::Call;
using testing::Dice;
using testing::Request;
using testing::Workplace;

struct Called {
  int code = 0;
  std::string out;  // as the command prints it
};

// "files" takes the place of the folder.
Called called(const Call& call) {
  Surroundings around = console_surroundings();
  around.read = nullptr;
  const auto json =
      nlohmann::ordered_json::parse(respond(call.method, call.request.dump(), around));
  if (json.contains("error")) return {json.at("error").at("code").get<int>(), ""};
  return {0, json.at("result").dump(2) + "\n"};
}

// Whether they were compared, and the exit code.
std::optional<int> expect_same(const Request& request, const Workplace& workplace) {
  const std::optional<Call> call = testing::as_whole_call(request);
  if (!call.has_value()) return std::nullopt;
  const Answer printed = workplace.ask(testing::with_json(request));
  const Called answer = called(*call);
  // A plan that does not fit, and a search that finds nothing, are answers too.
  const bool fits = printed.code != static_cast<int>(ExitCode::kDoesNotFit);
  EXPECT_EQ(answer.code, fits || printed.out.empty() ? printed.code : 0)
      << testing::text_of(request) << printed.err;
  EXPECT_EQ(answer.out, answer.code == 0 ? testing::as_method(printed.out) : "")
      << testing::text_of(request);
  return printed.code;
}

TEST(CallTest, AnswersAsTheCommandPrints) {
  const Workplace workplace;
  std::ifstream demo(TESSERA_SOURCE_DIR "/examples/demo.toml");
  const std::string run{std::istreambuf_iterator<char>(demo), {}};
  const std::vector<std::vector<std::string>> requests = {
      {"presets"},
      {"presets", "devices"},
      {"presets", "clusters"},
      {"presets", "engines"},
      {"explain", "zero", "--model=llama-3-8b", "--ranks=64"},
      {"explain", "ring", "--bytes=140GB", "--ranks=32"},
      {"explain", "memory"},
      {"show", "schedule", "--ranks", "3", "--micro-batches=5", "--p2p", "0.5", "--stage-costs",
       "1,1,2"},
      {"show", "schedule", "--ranks", "65"},
      {"show", "collective", "--op", "all_gather", "--ranks=3", "--algorithm", "naive"},
      {"show", "numbers", "--value", "1", "--steps", "3"},
      {"show", "tp_matmul", "--split", "pair"},
      {"show", "experts", "--skew", "0.5", "--tokens=16"},
      {"show", "serving", "--stages", "2", "--requests", "3", "--prompt", "1k", "--pages", "140"},
      {"show", "choices", "--model", "llama-3-8b", "--cluster", "h100-8", "--sequence-parallel",
       "--set", "train.micro_batch=2"},
      {"plan", "--serve", "llama-3-8b", "--cluster", "h100-8", "--tp", "4", "--pp", "2"},
      {"plan", "--model", "llama-3-8b", "--cluster", "h100-64", "--tp", "8", "--zero", "1"},
      {"plan", "--model", "llama-3-405b", "--cluster", "h100-16384", "--tp", "8", "--pp", "16",
       "--virtual-stages", "1", "--sequence-parallel", "--tokens", "15T", "--mtbf-device", "30000h",
       "--save", "90"},
      {"plan", "--model", "llama-3-70b", "--cluster", "a100-8", "--check"},
      {"plan", "--model", "llama-3-8b", "--cluster", "h100-8", "--engine", "megatron"},
      {"plan", "--model", "llama-3-8b", "--cluster", "h100-8", "--vary", "train.micro_batch=1,2,0"},
      {"plan", "--model", "llama-3-8b", "--cluster", "h100-8", "--tp", "8", "--emit", "megatron"},
      {"plan", "run.toml", "--mesh", "dp=2,tp=2"},
      {"plan", "run.toml", "--mesh", "pp=2", "--set", "parallel.schedule=gpipe", "--check"},
      {"plan", "run.toml", "--cluster", "cpu-4", "--mesh", "fsdp=4"},
      {"simulate", "run.toml", "--mesh", "pp=2,dp=2"},
      {"simulate", "run.toml", "--schedule-only", "--mesh", "pp=4,schedule=zb-h1"},
      {"simulate", "run.toml", "--mesh", "dp=2", "--slow", "rank=1,factor=1.5", "--cluster",
       "two-pcs", "--no-contention", "--all-ranks"},
      {"simulate", "run.toml", "--mesh", "dp=2", "--lost", "rank=1,at=0.5"},
      {"simulate", "--model", "gpt2", "--cluster", "h100-4", "--tp", "2"},
      {"simulate", "run.toml", "--mesh", "dp=2", "--cluster", "h100", "--mtbf", "100h", "--days",
       "2.5", "--save-every", "1000", "--spares", "1", "--repair", "3h", "--seed", "5"},
      {"simulate", "run.toml", "--spares", "1"},
      {"search", "--model", "llama-3-8b", "--cluster", "h100-8", "--global-batch", "64",
       "--seq-len", "4096", "--top", "3"},
      {"search", "--model", "gpt2", "--cluster", "pc-4x24", "--global-batch", "16", "--seq-len",
       "1024", "--objective", "cost", "--pareto", "--usd-per-hour", "1.5", "--tp", "1"},
      {"search", "--model", "llama-3-405b", "--cluster", "pc-4x24", "--global-batch", "4",
       "--seq-len", "2048"},
  };
  for (const std::vector<std::string>& words : testing::share_of(requests, 3)) {
    EXPECT_NE(expect_same({words, {{"run.toml", run}}}, workplace), std::nullopt);
  }
}

TEST(CallTest, RandomRequestsAreAnsweredAlike) {
  constexpr int64_t kRequests = 300, kFirst = 1'000'000;
  const testing::Share share = testing::share_of(kRequests, 6);
  const Workplace workplace;
  std::map<int, int64_t> codes;
  int64_t compared = 0;  // what the command line cannot ask is not
  for (int64_t i = share.begin; i < share.end; ++i) {
    Dice dice(static_cast<uint64_t>(kFirst + i));
    const std::optional<int> code = expect_same(testing::random_request(dice), workplace);
    ASSERT_FALSE(HasFailure());
    if (!code.has_value()) continue;
    ++codes[*code];
    ++compared;
  }
  EXPECT_GE(codes[0], compared / 8) << "many requests should make sense";
  EXPECT_GE(codes[2], compared / 8) << "and many should not";
}

// Parity of the page's core rests on these requests: what is never drawn is never compared.
TEST(CallTest, RandomRequestsAskEveryMethod) {
  std::set<std::string> asked;
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    Dice dice(seed);
    const std::optional<Call> call = testing::as_whole_call(testing::random_request(dice));
    if (call.has_value()) asked.insert(call->method);
  }
  for (const Method& method : methods()) {
    EXPECT_TRUE(asked.contains(std::string(method.name))) << method.name;
  }
}

// The comparison itself notices a difference.
TEST(CallTest, AnotherRequestGivesAnotherAnswer) {
  const Called one = called({"explain", {{"topic", "ring"}, {"given", {{"ranks", 8}}}}});
  const Called other = called({"explain", {{"topic", "ring"}, {"given", {{"ranks", 9}}}}});
  EXPECT_EQ(one.code, 0);
  EXPECT_NE(one.out, other.out);
}

}  // namespace
}  // namespace tessera
