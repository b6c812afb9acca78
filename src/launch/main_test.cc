// One program in several roles: the tests start it again as agent and as rank.
#include <gtest/gtest.h>

#include <iostream>
#include <string>
#include <vector>

#include "base/error.h"
#include "launch/testing/test_roles.h"

int main(int argc, char** argv) {
  const std::string role = argc > 1 ? argv[1] : "";
  try {
    if (role == "--as-agent") return tessera::testing::run_as_agent({argv + 2, argv + argc});
    if (role == "--as-rank") return tessera::testing::run_as_rank({argv + 2, argv + argc});
  } catch (const tessera::Error& error) {
    std::cerr << "error: " << error.what() << std::endl;
    return static_cast<int>(error.code());
  }
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
