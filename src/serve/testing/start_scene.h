// For tests: small models to start, such as a run that some mesh has just trained.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/testing/test_folder.h"
#include "serve/start/start_model.h"
#include "serve/testing/own_process.h"
#include "serve/testing/text_listener.h"

namespace tessera::serve::testing {

// One rank in f64, with memory for few pages.
StartOptions start_options(const std::string& model);

// Two steps on `mesh` and on bytes, with a checkpoint of the last one; the path of the run
// directory.
std::string train_run(const tessera::testing::TestFolder& folder, const std::string& mesh,
                      int64_t vocab = 256);
// The same with what `change` says otherwise.
std::string train_run(const tessera::testing::TestFolder& folder, const std::string& mesh,
                      const std::function<void(RunSpec& spec)>& change);

// Descriptors and threads are as before once this is gone.
struct NothingIsLeft {
  int64_t descriptors = open_files(), threads = running_threads();
  ~NothingIsLeft() {
    EXPECT_EQ(open_files(), descriptors);
    EXPECT_EQ(running_threads(), threads);
  }
};

// What a request that has one choice got; expects that it has the length that it asked for.
inline std::vector<int32_t> answer_of(Generator& generator, GenerationRequest request) {
  auto listener = std::make_shared<TextListener>();
  const Submission submission = generator.submit(std::move(request), listener);
  EXPECT_EQ(submission.refused, Refused::kNo) << submission.why;
  if (submission.refused != Refused::kNo) return {};
  EXPECT_TRUE(listener->wait());
  EXPECT_EQ(listener->choice().finish, FinishReason::kLength) << listener->choice().why;
  EXPECT_EQ(listener->broken, "");
  return listener->ids();
}

}  // namespace tessera::serve::testing
