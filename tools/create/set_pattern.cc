#include "tools/create/set_pattern.h"

#include "io/base/error.h"
#include "wds/shard_name.h"

namespace millrace::tools {

std::string fold_pattern(const std::string& pattern, std::uint32_t fold) {
  const std::string number = std::to_string(fold);
  std::string text = pattern;
  for (std::size_t at = text.find(kFoldMark); at != std::string::npos;
       at = text.find(kFoldMark, at)) {
    text.replace(at, kFoldMark.size(), number);
  }
  return text;
}

std::vector<std::string> set_patterns(const std::string& pattern, std::uint32_t folds) {
  const bool marked = pattern.find(kFoldMark) != std::string::npos;
  const auto refuse = [](const std::string& message) {
    throw Error(ErrorCode::kInvalidArgument, message);
  };
  if (marked && folds == 0) refuse(pattern + ": {fold} in the pattern needs --folds");
  if (!marked && folds > 0)
    refuse(pattern + ": --folds needs {fold} in the pattern, as in out/fold{fold}/train-%06d.tar");
  std::vector<std::string> patterns;
  if (folds == 0) patterns.push_back(pattern);
  for (std::uint32_t fold = 0; fold < folds; ++fold)
    patterns.push_back(fold_pattern(pattern, fold));
  for (const std::string& one : patterns) static_cast<void>(wds::shard_name(one, 0));
  return patterns;
}

}  // namespace millrace::tools
