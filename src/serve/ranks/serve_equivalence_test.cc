// A model that is served says what its forward pass in training says, of every token, however texts
// are cut into frames, mixed, and split over ranks.
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <random>

#include "base/error.h"
#include "serve/testing/text_feeder.h"

namespace tessera::serve {
namespace {

using testing::difference;
using testing::FeedOptions;
using testing::Rows;
using testing::ServedModel;
using testing::Text;

constexpr double kTolerance = 1e-12;

int64_t pick(std::mt19937_64& random, std::initializer_list<int64_t> values) {
  return values.begin()[random() % values.size()];
}

Text random_text(std::mt19937_64& random, int64_t length, int64_t vocab) {
  Text text;
  for (int64_t t = 0; t < length; ++t) {
    text.push_back(static_cast<int32_t>(random() % static_cast<uint64_t>(vocab)));
  }
  return text;
}

// Four layers, so that pp = 4 has one for each stage.
ServedModel deep_model(bool tied) {
  ModelSpec model;
  model.layers = 4;
  model.hidden = 32;
  model.ffn = 48;
  model.heads = 4;
  model.kv_heads = 2;
  model.head_dim = 8;
  model.vocab = 50;
  model.tied = tied;
  return testing::random_model(model, tied ? "deep-tied" : "deep");
}

// As deep, of other families: learned positions and biases; experts; windows and norms of heads.
std::vector<ServedModel> deep_families() {
  ModelSpec plain = deep_model(false).spec.model;
  ModelSpec gelu = plain;
  gelu.family = ModelFamily::kGpt2;
  gelu.kv_heads = gelu.heads;
  gelu.norm = NormKind::kLayer;
  gelu.mlp = MlpKind::kGelu;
  gelu.positions = PositionKind::kLearned;
  gelu.max_positions = 256;
  gelu.attention_bias = AttentionBias::kAll;
  gelu.mlp_bias = gelu.tied = true;
  ModelSpec experts = plain;
  experts.family = ModelFamily::kMixtral;
  experts.layers = 5;
  experts.experts = 4;
  ModelSpec window = plain;
  window.layers = 6;
  window.qk_norm = true;
  window.sliding_window = 13;
  return {testing::random_model(gelu, "deep-gelu"), testing::random_model(experts, "deep-experts"),
          testing::random_model(window, "deep-window")};
}

std::vector<ServedModel> all_models() {
  std::vector<ServedModel> models = {deep_model(false), deep_model(true)};
  for (ServedModel& model : deep_families()) models.push_back(std::move(model));
  for (const std::string& folder : testing::model_folders()) {
    models.push_back(testing::folder_model(folder));
  }
  return models;
}

struct Case {
  FeedOptions options;
  std::vector<Text> texts;
  int64_t longest_chunk = 1;
  int64_t together = 1;
};

// Every second case of a deep model has four stages.
Case random_case(std::mt19937_64& random, const ModelSpec& model, bool four_stages) {
  Case one;
  FeedOptions& o = one.options;
  do {
    o.tp = pick(random, {1, 2, 4});
  } while (model.heads % o.tp != 0);
  do {
    o.pp = pick(random, {1, 2, 4});
  } while (o.pp > model.layers);
  if (four_stages && model.layers >= 4) o.pp = 4;
  const bool shares = model.experts > 0 && o.tp > 1 && model.experts % o.tp == 0;
  o.ep = shares ? pick(random, {1, o.tp}) : 1;
  o.threads = pick(random, {1, 2});
  o.page_size = pick(random, {4, 16, 32});
  o.max_tokens = pick(random, {8, 24, 40});
  o.max_context = model.max_positions > 0 ? std::min<int64_t>(96, model.max_positions) : 96;
  const int64_t count = pick(random, {1, 3, 5});
  const auto longest = static_cast<uint64_t>(std::min<int64_t>(70, o.max_context));
  for (int64_t i = 0; i < count; ++i) {
    one.texts.push_back(
        random_text(random, 1 + static_cast<int64_t>(random() % longest), model.vocab));
  }
  one.longest_chunk = pick(random, {1, 5, 17, 40});
  one.together = pick(random, {1, 3, 8});
  return one;
}

std::string text_of(const ServedModel& model, const Case& one) {
  const FeedOptions& o = one.options;
  return fmt::format("{}: tp={} pp={} ep={} threads={} page={} max_tokens={} chunk<={} together={}",
                     model.name, o.tp, o.pp, o.ep, o.threads, o.page_size, o.max_tokens,
                     one.longest_chunk, one.together);
}

TEST(ServeEquivalence, EveryTokenHasTheLogitsOfTraining) {
  const int cases = std::getenv("TESSERA_TEST_ALL") != nullptr ? 300 : 20;
  const std::vector<ServedModel> models = all_models();
  std::mt19937_64 random(11);
  int four_stages = 0;
  for (int i = 0; i < cases; ++i) {
    const ServedModel& model = models[static_cast<size_t>(i) % models.size()];
    const Case one = random_case(random, model.spec.model, i % 2 == 0);
    SCOPED_TRACE(text_of(model, one));
    four_stages += one.options.pp == 4 ? 1 : 0;
    const std::unique_ptr<LocalFrameRunner> runner = testing::test_runner(model, one.options);
    testing::TextFeeder feeder(*runner, random());
    const auto chunk = [&](int64_t) {
      return 1 + static_cast<int64_t>(random() % static_cast<uint64_t>(one.longest_chunk));
    };
    const std::vector<Rows> served = feeder.feed(one.texts, chunk, one.together);
    EXPECT_LE(difference(testing::reference_logits(model, one.texts), served), kTolerance);
  }
  EXPECT_GE(four_stages, 2);
}

}  // namespace
}  // namespace tessera::serve
