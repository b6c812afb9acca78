#include "data/corpus.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "base/error.h"
#include "base/testing/message_of.h"
#include "data/synth.h"

namespace tessera {
namespace {

using testing::message_of;

namespace fs = std::filesystem;

class CorpusTest : public ::testing::Test {
 protected:
  CorpusTest() {
    std::string name = (fs::temp_directory_path() / "tessera_corpus_XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp");
    root_ = name;
  }
  ~CorpusTest() override { fs::remove_all(root_); }

  fs::path write(const std::string& name, const std::string& text) const {
    const fs::path path = root_ / name;
    fs::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << text;
    return path;
  }

  fs::path root_;
};

std::string text_of(const Corpus& corpus) {
  std::string text;
  for (int64_t i = 0; i < corpus.size(); ++i) text += static_cast<char>(corpus.token_at(i));
  return text;
}

TEST_F(CorpusTest, TokensAreBytes) {
  const Corpus corpus = Corpus::from_text("t", std::string("a\0\xff\n", 4));
  ASSERT_EQ(corpus.size(), 4);
  EXPECT_EQ(corpus.token_at(0), 'a');
  EXPECT_EQ(corpus.token_at(1), 0);
  EXPECT_EQ(corpus.token_at(2), 255);
  EXPECT_EQ(corpus.vocab(), 256);
}

TEST_F(CorpusTest, SyntheticIsTheSynthText) {
  EXPECT_EQ(text_of(Corpus::synthetic(4, 1000)), synth_stories(4, 1000));
}

TEST_F(CorpusTest, ReadsAFileByteForByte) {
  const std::string bytes("one\r\ntwo\0three", 14);
  EXPECT_EQ(text_of(Corpus::from_path(write("x.txt", bytes))), bytes);
}

TEST_F(CorpusTest, ReadsAFolderSortedByPathWithNewlinesBetween) {
  write("b.txt", "B");
  write("a/z.txt", "AZ");
  write("a/b/c.txt", "ABC");
  write("a.txt", "A");
  write("empty.txt", "");
  write(".hidden", "no");
  write(".git/config", "no");
  write("a/.secret/x", "no");
  // '.' sorts before '/', so a.txt precedes what is in a/.
  EXPECT_EQ(text_of(Corpus::from_path(root_)), "A\nABC\nAZ\nB");
}

TEST_F(CorpusTest, KnowsTheSizeWithoutReading) {
  write("one/b.txt", "bb");
  write("one/a.txt", "aaa");
  write("one/empty.txt", "");
  write("none/empty.txt", "");
  for (const char* name : {"one", "one/b.txt"}) {
    EXPECT_EQ(Corpus::size_of_path(root_ / name), Corpus::from_path(root_ / name).size()) << name;
  }
  for (const char* name : {"none", "none/empty.txt", "nowhere"}) {
    const std::string message =
        message_of<ConfigError>([&] { Corpus::size_of_path(root_ / name); });
    EXPECT_NE(message, "") << name;
    EXPECT_EQ(message, message_of<ConfigError>([&] { Corpus::from_path(root_ / name); }));
  }
}

TEST_F(CorpusTest, SkipsWhatIsNotAFileAndFollowsLinksToFiles) {
  write("data/a.txt", "A");
  const fs::path outside = write("outside.txt", "O");
  fs::create_symlink(outside, root_ / "data/b.txt");
  ASSERT_EQ(mkfifo((root_ / "data/pipe").c_str(), 0600), 0);
  EXPECT_EQ(text_of(Corpus::from_path(root_ / "data")), "A\nO");
}

TEST_F(CorpusTest, RefusesALinkLoop) {
  write("data/a.txt", "A");
  fs::create_directory_symlink(root_ / "data", root_ / "data/again");
  EXPECT_NE(message_of<ConfigError>([&] {
              Corpus::from_path(root_ / "data");
            }).find("again' is reached twice through a link"),
            std::string::npos);
}

TEST_F(CorpusTest, RefusesABrokenOrSelfLinkInAFolder) {
  write("data/a.txt", "A");
  fs::create_symlink(root_ / "nothing", root_ / "data/b.txt");
  EXPECT_NE(message_of<Error>([&] { Corpus::from_path(root_ / "data"); }).find("link to nothing"),
            std::string::npos);
  fs::remove(root_ / "data/b.txt");
  fs::create_symlink(root_ / "data/self", root_ / "data/self");
  EXPECT_NE(message_of<Error>([&] { Corpus::from_path(root_ / "data"); }).find("cannot read"),
            std::string::npos);
}

TEST_F(CorpusTest, RefusesMissingAndEmptyAndSpecialPaths) {
  EXPECT_NE(
      message_of<ConfigError>([&] { Corpus::from_path(root_ / "no"); }).find("no' does not exist"),
      std::string::npos);
  const fs::path empty = write("e/empty.txt", "");
  for (const fs::path& path : {empty, root_ / "e"}) {
    EXPECT_NE(message_of<ConfigError>([&] {
                Corpus::from_path(path);
              }).find("data '" + path.string() + "' is empty: "),
              std::string::npos);
  }
  EXPECT_THROW(Corpus::from_text("t", ""), ConfigError);
  const fs::path pipe = root_ / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_NE(message_of<ConfigError>([&] {
              Corpus::from_path(pipe);
            }).find("neither a regular file nor a folder"),
            std::string::npos);
}

TEST_F(CorpusTest, RefusesAnUnreadableFile) {
  if (geteuid() == 0) GTEST_SKIP() << "root may read everything";
  const fs::path path = write("x.txt", "secret");
  fs::permissions(path, fs::perms::none);
  EXPECT_NE(message_of<Error>([&] { Corpus::from_path(path); }).find("check its permissions"),
            std::string::npos);
}

TEST_F(CorpusTest, RefusesLessThanOneSample) {
  const Corpus corpus = Corpus::from_text("x", std::string(120, 'a'));
  EXPECT_EQ(message_of<ConfigError>([&] { require_samples(corpus, 256); }),
            "data 'x' has 120 tokens but one sample needs seq_len + 1 = 257; use more text or a "
            "shorter seq_len");
  EXPECT_THROW(require_samples(corpus, 120), ConfigError);
  EXPECT_NO_THROW(require_samples(corpus, 119));
  EXPECT_THROW(require_samples(corpus, 0), ConfigError);
}

}  // namespace
}  // namespace tessera
