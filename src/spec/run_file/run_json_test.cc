#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/testing/message_of.h"
#include "spec/entry.h"
#include "spec/run_file/run_file.h"

namespace tessera {
namespace {

struct Change {
  const Key& key;
  double number;
  void operator()(int64_t* field) const { *field = static_cast<int64_t>(number); }
  void operator()(uint64_t* field) const {
    *field = std::numeric_limits<uint64_t>::max() - static_cast<uint64_t>(number);
  }
  void operator()(double* field) const { *field = 1.0 / number; }
  void operator()(bool* field) const { *field = !*field; }
  void operator()(std::string* field) const { *field = "text \"" + std::to_string(number); }
  void operator()(DType* field) const { *field = DType::kBF16; }
  void operator()(TrainType field) const {
    *field.type = DType::kBF16;
    *field.fp8 = true;
  }
  void operator()(std::vector<int64_t>* field) const { *field = {1, 2}; }
  void operator()(std::vector<DataPart>* field) const { *field = {{"a", 2}, {"b", 0.5}}; }
  void operator()(std::vector<ValidSet>* field) const { *field = {{"a", "x"}, {"b \"c", "y"}}; }
  void operator()(Betas field) const {
    *field.first = 0.1 / number;
    *field.second = 0.2 / number;
  }
  template <ChoiceEnum E>
  void operator()(E* field) const {
    *field = *field == E{} ? *choice_named<E>(key.choices.back()) : E{};
  }
  void operator()(PipelineChoice* field) const { *field = PipelineKind::kZbV; }
};

// A different value than the default in every field, derived from the key's place in the table.
RunSpec unusual() {
  RunSpec spec;
  double number = 1000;
  for (const Key& key : run_keys()) std::visit(Change{key, ++number}, key.field(spec));
  return spec;
}

std::string failure(const nlohmann::json& json) {
  return testing::message_of([&] { run_spec_from_json(json); });
}

TEST(RunJsonTest, HasTheStructureOfTheRunFile) {
  const nlohmann::ordered_json json = to_json(RunSpec{});
  EXPECT_EQ(json["model"]["rope_scaling"]["type"], "default");
  EXPECT_EQ(json["model"]["rope_theta"], 10000.0);
  EXPECT_EQ(json["data"]["synth"]["bytes"], 4'000'000);
  EXPECT_EQ(json["optimizer"]["betas"], (nlohmann::ordered_json{0.9, 0.95}));
  EXPECT_EQ(json["train"]["dtype"], "f32");
  EXPECT_EQ(json.begin().key(), "model");
}

TEST(RunJsonTest, EveryFieldSurvivesTheRoundTripThroughText) {
  for (const RunSpec& spec : {RunSpec{}, unusual()}) {
    const std::string text = to_json(spec).dump();
    const RunSpec back = run_spec_from_json(nlohmann::json::parse(text));
    EXPECT_EQ(to_json(back).dump(), text);
    EXPECT_EQ(back.train.seed, spec.train.seed);
    EXPECT_EQ(back.optimizer.beta2, spec.optimizer.beta2);
    EXPECT_EQ(back.parallel.zero, spec.parallel.zero);
    EXPECT_EQ(back.model.rope.scaling, spec.model.rope.scaling);
    EXPECT_EQ(back.logging.run_dir, spec.logging.run_dir);
  }
  // Every key of the unusual run differs from the default, so none can be lost unnoticed.
  const nlohmann::json plain = nlohmann::json(to_json(RunSpec{})).flatten();
  const nlohmann::json changed = nlohmann::json(to_json(unusual())).flatten();
  EXPECT_EQ(plain.size(), run_keys().size() + 1) << "betas are two";
  for (const auto& [path, value] : plain.items()) EXPECT_NE(changed[path], value) << path;
}

TEST(RunJsonTest, RefusesWhatItDoesNotKnow) {
  EXPECT_EQ(failure({{"model", {{"layer", 4}}}}),
            "resolved run: unknown key 'layer' in [model]; did you mean 'layers'?");
  EXPECT_EQ(failure({{"model", {{"layers", "four"}}}}),
            "resolved run: model.layers must be an integer, got string \"four\"");
  EXPECT_EQ(failure({{"model", {{"layers", std::numeric_limits<uint64_t>::max()}}}}),
            "resolved run: model.layers must be an integer below 2^63, got integer "
            "18446744073709551615");
  EXPECT_EQ(failure({{"model", 4}}), "resolved run: model must be a table, got integer 4");
  EXPECT_EQ(failure(nlohmann::json::array()),
            "resolved run: expected an object with sections, got array");
}

}  // namespace
}  // namespace tessera
