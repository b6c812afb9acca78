// Models by name: the catalogue, and files of one's own.
#include "spec/catalogue/model_catalogue.h"

#include <gtest/gtest.h>

#include <map>

#include "base/error.h"
#include "base/testing/message_of.h"
#include "spec/catalogue/model_size.h"
#include "spec/run_file/run_file.h"
#include "spec/run_file/trainable.h"
#include "spec/run_file/validate.h"

namespace tessera {
namespace {

using testing::message_of;

bool agree(const PublishedCount& published, double count) {
  return count > published.value - published.unit && count < published.value + published.unit;
}

TEST(ModelCatalogueTest, EveryModelHasItsPublishedSize) {
  for (const std::string_view name : model_names()) {
    const ModelEntry entry = find_model(std::string(name));
    EXPECT_FALSE(entry.source.empty()) << name;
    ASSERT_GT(entry.parameters.value, 0) << name;
    const ModelSize size = model_size(entry.model);
    EXPECT_TRUE(agree(entry.parameters, static_cast<double>(size.total)))
        << name << " has " << size.total << ", published are " << entry.parameters.value;
    EXPECT_LE(size.active, size.total) << name;
    if (entry.model.experts == 0) {
      EXPECT_EQ(size.active, size.total) << name;
      continue;
    }
    // Some sources count the embedding, of which a token meets one row, and some do not.
    const auto table = static_cast<double>(entry.model.vocab * entry.model.hidden);
    const auto active = static_cast<double>(size.active);
    EXPECT_TRUE(agree(entry.active_parameters, active) ||
                agree(entry.active_parameters, active - table))
        << name << " has " << size.active << ", published are " << entry.active_parameters.value;
  }
}

// Independent of the files: counts of the weights that were published.
TEST(ModelCatalogueTest, FamousCountsAreExact) {
  const std::map<std::string, int64_t> published = {
      {"gpt2", 124'439'808},           {"gpt2-xl", 1'557'611'200},
      {"llama-2-7b", 6'738'415'616},   {"llama-2-70b", 68'976'648'192},
      {"llama-3-8b", 8'030'261'248},   {"llama-3.1-405b", 405'853'388'800},
      {"llama-3.2-1b", 1'235'814'400}, {"mistral-7b", 7'241'732'096},
      {"qwen2-7b", 7'615'616'512},     {"qwen3-30b-a3b", 30'532'122'624},
      {"qwen3-8b", 8'190'735'360},     {"mixtral-8x7b", 46'702'792'704},
      {"bloom-176b", 176'247'271'424}, {"mpt-7b", 6'649'286'656},
  };
  for (const auto& [name, count] : published) {
    EXPECT_EQ(model_size(find_model(name).model).total, count) << name;
  }
}

TEST(ModelCatalogueTest, EachResolvesAndNamesItself) {
  for (const std::string_view name : model_names()) {
    RunSpec spec;
    spec.model = find_model(std::string(name)).model;
    EXPECT_EQ(spec.model.preset, name);
    EXPECT_NO_THROW(resolve(spec)) << name;
  }
}

TEST(ModelCatalogueTest, RopeFollowsTheGeneration) {
  const auto model = [](const char* name) { return find_model(name).model; };
  EXPECT_EQ(model("llama-2-7b").rope.theta, 1e4);
  EXPECT_EQ(model("llama-3-8b").rope.scaling, RopeScaling::kDefault);
  EXPECT_EQ(model("llama-3-8b").rope.theta, 5e5);
  EXPECT_EQ(model("llama-3.1-8b").rope.scaling, RopeScaling::kLlama3);
  EXPECT_EQ(model("llama-3.1-8b").rope.factor, 8);
  EXPECT_EQ(model("llama-3.2-1b").rope.factor, 32);
  EXPECT_EQ(model("llama-3.2-3b").head_dim, 128);
}

TEST(ModelCatalogueTest, UnknownNamesSayWhereTheCatalogueIs) {
  EXPECT_EQ(message_of([] { find_model("zzz-5"); }),
            "unknown model preset \"zzz-5\"; 'tessera presets models' lists what is known; or give "
            "a file that ends in .toml, or a Hugging Face folder");
  EXPECT_NE(message_of([] { find_model("tiny-4m"); }).find("(did you mean 'tiny-3m'?)"),
            std::string::npos);
  const std::string near = message_of([] { find_model("lama-3-8b"); });
  EXPECT_NE(near.find("(did you mean 'llama-3-8b'?)"), std::string::npos) << near;
}

TEST(ModelCatalogueTest, LettersMayBeOfAnyCase) {
  EXPECT_EQ(find_model("Llama-3-8B").model.hidden, find_model("llama-3-8b").model.hidden);
}

TEST(ModelCatalogueTest, SaysWhatCannotBeTrained) {
  std::map<std::string, std::string> refused;
  for (const std::string_view name : model_names()) {
    const std::string choice = untrainable_choice(find_model(std::string(name)).model);
    if (!choice.empty()) refused[std::string(name)] = choice;
  }
  EXPECT_EQ(refused.at("deepseek-v3"), "model.kv_rank = 512 (latent attention)");
  EXPECT_EQ(refused.at("palm-540b"), "model.parallel_block = true (attention beside the MLP)");
  EXPECT_EQ(refused.at("bloom-176b"), "model.embedding_norm = true");
  EXPECT_EQ(refused.at("opt-175b"), "model.mlp = \"relu\"");
  for (const char* trained : {"gpt2", "gpt-3-175b", "llama-3-405b", "qwen3-235b-a22b"}) {
    EXPECT_FALSE(refused.contains(trained)) << refused[trained];
  }
  EXPECT_EQ(message_of([] { require_trainable(find_model("mpt-7b").model); }),
            "model.positions = \"alibi\" can be planned but not trained: there is no program for "
            "it; leave it out, or see 'tessera explain --help' for what can be said without a "
            "program");
}

class OwnFilesTest : public ::testing::Test {
 protected:
  ModelEntry find(const std::string& name) {
    return find_model(name, [this](const std::string& path) {
      const auto file = files_.find(path);
      require_config(file != files_.end(), "cannot open '{}'", path);
      return file->second;
    });
  }
  std::string failure_of(const std::string& name) {
    return message_of([&] { find(name); });
  }
  std::map<std::string, std::string> files_;
};

TEST_F(OwnFilesTest, ExtendAnotherModel) {
  files_["mine/wide.toml"] = "extends = \"llama-3-8b\"\n[model]\nhidden = 8192\nheads = 64\n";
  files_["mine/wider.toml"] = "extends = \"wide.toml\"\n[model]\nffn = 20000\n";
  const ModelEntry entry = find("mine/wider.toml");
  EXPECT_EQ(entry.model.hidden, 8192);
  EXPECT_EQ(entry.model.head_dim, 128) << "derived again";
  EXPECT_EQ(entry.model.ffn, 20000);
  EXPECT_EQ(entry.model.rope.theta, 5e5);
  EXPECT_EQ(entry.model.kv_heads, 8);
}

TEST_F(OwnFilesTest, AreFoundInTheFolderOfTheCatalogue) {
  files_["catalogue/models/mine.toml"] = "extends = \"gpt2\"\n[model]\nlayers = 3\n";
  EXPECT_EQ(find("mine").model.layers, 3);
  EXPECT_EQ(failure_of("../mine"), "cannot open '../mine/config.json'") << "a path is one";
}

constexpr const char* kConfig =
    R"({"model_type": "llama", "num_hidden_layers": 3, "hidden_size": 64, "intermediate_size": 128,
        "num_attention_heads": 4, "vocab_size": 256})";

TEST_F(OwnFilesTest, MayBeHuggingFaceFolders) {
  files_["hub/config.json"] = kConfig;
  files_["other.json"] = kConfig;
  for (const char* name : {"hub", "hub/", "./hub/../hub", "hub/config.json", "other.json"}) {
    files_["./hub/../hub/config.json"] = kConfig;
    const ModelSpec model = find(name).model;
    EXPECT_EQ(model.layers, 3) << name;
    EXPECT_EQ(model.head_dim, 16) << name;
    EXPECT_EQ(model.preset, name);
    EXPECT_EQ(model.hf, "") << "the shape alone";
  }
  EXPECT_EQ(
      failure_of("hub/none"),
      "cannot open 'hub/none/config.json'; nothing is fetched from the Hub: give a folder that "
      "is here, or a preset");
  files_["bad/config.json"] = R"({"model_type": "llama", "hidden_size": 64})";
  EXPECT_EQ(failure_of("bad"), "bad/config.json: num_hidden_layers is missing");
}

TEST_F(OwnFilesTest, MayStartFromAHuggingFaceFolder) {
  files_["hub/config.json"] = kConfig;
  files_["mine/beside/config.json"] = kConfig;
  files_["mine/m.toml"] = "[model]\nhf = \"hub\"\nlayers = 5\n";
  EXPECT_EQ(find("mine/m.toml").model.layers, 5);
  EXPECT_EQ(find("mine/m.toml").model.hidden, 64);
  files_["mine/n.toml"] = "[model]\nhf = \"beside\"\n";
  EXPECT_EQ(find("mine/n.toml").model.layers, 3);
  files_["mine/o.toml"] = "[model]\nhf = \"none\"\n";
  EXPECT_EQ(failure_of("mine/o.toml"), "mine/o.toml:2:6: cannot open 'none/config.json'");
  files_["mine/p.toml"] = "extends = \"gpt2\"\n[model]\nhf = \"beside\"\n";
  EXPECT_NE(failure_of("mine/p.toml").find("exclude each other"), std::string::npos);
}

TEST_F(OwnFilesTest, AreNamedByRunFiles) {
  files_["m.toml"] = "extends = \"gpt2\"\n[model]\nlayers = 3\n";
  const RunSpec spec = parse_run_file("[model]\npreset = \"m.toml\"\nvocab = 99\n", "run.toml", {},
                                      [this](const std::string& path) { return files_.at(path); });
  EXPECT_EQ(spec.model.layers, 3);
  EXPECT_EQ(spec.model.vocab, 99);
  EXPECT_EQ(spec.model.family, ModelFamily::kGpt2);
}

TEST_F(OwnFilesTest, MistakesHaveTheirPlace) {
  files_["a.toml"] = "extends = \"b.toml\"\n";
  files_["b.toml"] = "extends = \"a.toml\"\n";
  EXPECT_EQ(failure_of("a.toml"),
            "a.toml:1:11: b.toml:1:11: a circle: a.toml extends b.toml extends a.toml; let one of "
            "them extend nothing");
  files_["catalogue/models/self.toml"] = "extends = \"self\"\n";
  EXPECT_NE(failure_of("self").find("a circle: catalogue/models/self.toml extends"),
            std::string::npos);
  files_["c.toml"] = "[model]\nlayers = 0\n";
  EXPECT_EQ(failure_of("c.toml"),
            "c.toml:2:10: model.layers must be an integer from 1 to 1000000000000, got integer 0");
  files_["d.toml"] = "[model]\nlayers = 2\n";
  EXPECT_EQ(failure_of("d.toml"), "d.toml: [model] is missing hidden, ffn, heads, vocab");
  files_["e.toml"] = "[train]\nsteps = 2\n";
  EXPECT_NE(failure_of("e.toml").find("e.toml:1:2: [train] belongs in a run file"),
            std::string::npos)
      << failure_of("e.toml");
  files_["f.toml"] = "extends = \"lama-3-8b\"\n";
  EXPECT_NE(failure_of("f.toml").find("f.toml:1:11: unknown model preset"), std::string::npos);
  files_["g.toml"] = "extends = \"gpt2\"\nparameters = \"many\"\n";
  EXPECT_EQ(failure_of("g.toml"),
            "g.toml:2:14: parameters must be a count, such as 8_030_261_248 or \"37B\"");
  files_["h.toml"] = "extends = 3\n";
  EXPECT_EQ(failure_of("h.toml"), "h.toml:1:11: extends must be the name of a model or a file");
  files_["i.toml"] = "[model]\nfamily = \"gpt5\"\n";
  EXPECT_TRUE(failure_of("i.toml").starts_with("i.toml:2:10: model.family must be one of"));
  files_["j.toml"] = "[model]\npreset = \"gpt2\"\n";
  EXPECT_EQ(failure_of("j.toml"),
            "j.toml:2:1: model.preset does not belong in a model file; use extends = \"NAME\"");
}

}  // namespace
}  // namespace tessera
