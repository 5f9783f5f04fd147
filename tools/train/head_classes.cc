#include "tools/train/head_classes.h"

#include <fmt/format.h>

#include <cstddef>
#include <filesystem>
#include <vector>

#include "io/base/error.h"
#include "trainer/checkpoint.h"

namespace millrace::tools {
namespace {

/// Empty where nothing says them.
std::vector<std::string> head_names(const std::string& init, const ModelChoice& choice,
                                    const io::Opener& opener) {
  if (init.ends_with(".safetensors") || std::filesystem::is_regular_file(init)) return {};
  try {
    const auto before =
        ModelChoice::from_checkpoint(trainer::find_checkpoint(init, "best", opener), opener);
    return before.task.name() == choice.task.name() ? before.task.names
                                                    : std::vector<std::string>();
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kCancelled) throw;
    return {};  // a program's own checkpoint; whoever loads the weights says what is wrong with
                // them
  }
}

}  // namespace

void check_head_classes(const std::string& init, const ModelChoice& choice,
                        const io::Opener& opener) {
  const std::vector<std::string>& names = choice.task.names;
  if (names.empty()) return;
  const std::vector<std::string> before = head_names(init, choice, opener);
  if (before.size() != names.size()) return;  // no names; or the weights do not fit, which is said
  for (std::size_t label = 0; label < names.size(); ++label)
    if (before[label] != names[label])
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("the last layer of --init is of other classes: label {} is {} there, "
                              "and {} here. --replace-head begins that layer anew",
                              label, before[label], names[label]),
                  {.url = init});
}

}  // namespace millrace::tools
