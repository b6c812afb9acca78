#include "text/sampling_flags.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "cli/flags.h"

namespace tessera {
namespace {

constexpr double kUsualTemperature = 0.8;
constexpr int64_t kUsualSeed = 1;

template <typename Number>
Number said_or(Number said, Number usual) {
  return said < 0 ? usual : said;
}

}  // namespace

void add_sampling_flags(CLI::App& app, SamplingFlags& flags, const std::string& tokens) {
  add_whole(app, "--tokens", flags.tokens, 1, tokens);
  add_real(app, "--temperature", flags.temperature, 0,
           "0 takes the most likely token, 1 samples as trained (default 0.8)");
  add_whole(app, "--top-k", flags.top_k, 0, "choose among this many; 0 is all (default)");
  add_real(app, "--top-p", flags.top_p, 0,
           "choose among the likeliest that together have this share, 0 to 1 (default 1: all)");
  add_real(app, "--min-p", flags.min_p, 0,
           "choose among those as likely as this share of the likeliest, 0 to 1 (default 0: all)");
  add_list(app, "--stop", flags.stops, "TEXT",
           "end where this comes, and leave it out; can be repeated");
  add_whole(app, "--seed", flags.seed, 0, "the same seed gives the same text (default 1)");
}

void check_sampling(const SamplingFlags& flags) {
  require_config(flags.top_p <= 1, "--top-p is {}: it is a share, from 0 to 1", flags.top_p);
  require_config(flags.min_p <= 1, "--min-p is {}: it is a share, from 0 to 1", flags.min_p);
}

std::shared_ptr<const serve::Asked> ask_one(const SamplingFlags& flags,
                                            const serve::ServedModel& model, serve::Shape shape,
                                            std::vector<int32_t> prompt, int64_t max_tokens) {
  constexpr double kSmallest = 1e-9;  // a share of 0 means the likeliest token
  auto asked = std::make_shared<serve::Asked>();
  asked->shape = shape;
  asked->prompts = {std::move(prompt)};
  asked->prompt_texts.resize(1);
  asked->max_tokens = max_tokens;
  serve::Sampling& sampling = asked->sampling;
  sampling.temperature = said_or(flags.temperature, kUsualTemperature);
  sampling.top_k = flags.top_k >= model.vocab ? 0 : said_or<int64_t>(flags.top_k, 0);
  sampling.top_p = std::max(kSmallest, said_or(flags.top_p, 1.0));
  sampling.min_p = said_or(flags.min_p, 0.0);
  sampling.seed = static_cast<uint64_t>(said_or(flags.seed, kUsualSeed));
  asked->end_tokens = model.words->end_tokens();
  for (const std::string& stop : flags.stops) {
    // A special token has no text in an answer, so it is stopped at by its id.
    const int32_t special = model.words->special_token(stop);
    if (special >= 0) asked->end_tokens.push_back(special);
    asked->stops.push_back(stop);
  }
  asked->token_ids = true;
  return asked;
}

void fill_request(const SamplingFlags& flags, int64_t line, nlohmann::ordered_json& body) {
  const auto fill = [&](const char* name, const auto& value) {
    if (!body.contains(name)) body[name] = value;
  };
  if (flags.tokens > 0 && !body.contains("max_completion_tokens")) fill("max_tokens", flags.tokens);
  if (flags.temperature >= 0) fill("temperature", flags.temperature);
  if (flags.top_k >= 0) fill("top_k", flags.top_k);
  if (flags.top_p >= 0) fill("top_p", flags.top_p);
  if (flags.min_p >= 0) fill("min_p", flags.min_p);
  if (!flags.stops.empty()) fill("stop", flags.stops);
  fill("seed", said_or(flags.seed, kUsualSeed) + line);
}

}  // namespace tessera
