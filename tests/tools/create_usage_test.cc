// Usage errors of create: exit status 2, one line, and nothing written.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/tools/support.h"

namespace millrace::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

struct BadCreate {
  std::string what;
  std::string pattern;
  std::vector<std::string> more;
  std::string says;
};

void PrintTo(const BadCreate& use, std::ostream* os) { *os << use.what; }

class CreateUsage : public ::testing::TestWithParam<BadCreate> {};

TEST_P(CreateUsage, IsRefusedInOneLineAndNothingIsMade) {
  const TempDir dir;
  std::vector<std::string> words = GetParam().more;
  words.insert(words.begin(), {"create", GetParam().pattern});
  const ProcessResult result = millrace(words, {.folder = dir.path().string()});
  EXPECT_EQ(result.status, 2) << result.err;
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  EXPECT_THAT(result.err, HasSubstr(GetParam().says));
  EXPECT_THAT(list_dir(dir.path().string()), IsEmpty());
}

const std::vector<BadCreate> kBadCreates = {
    {"FoldsWithoutMark", "x-%d.tar", {"--synthetic", "classes", "--folds", "3"}, "{fold}"},
    {"MarkWithoutFolds", "x{fold}-%d.tar", {"--synthetic", "classes"}, "--folds"},
    {"OneFold", "x{fold}-%d.tar", {"--synthetic", "classes", "--folds", "1"}, "--folds"},
    {"MoreFoldsThanGroups",
     "x{fold}-%d.tar",
     {"--synthetic", "multilabel", "--count", "6", "--folds", "4"},
     "3 groups cannot fill 4 folds"},
    {"TableWithoutPath", "x-%d.tar", {"--from-csv", "/dev/null"}, "--path"},
    {"MissingTable", "x-%d.tar", {"--from-csv", "none.csv", "--path", "{a}"}, "none.csv"},
    {"MissingList", "x-%d.tar", {"--from-list", "none.txt"}, "none.txt"},
    {"PathWithoutTable", "x-%d.tar", {"--synthetic", "classes", "--path", "{a}"}, "--from-csv"},
    {"LabelsWithoutTable", "x-%d.tar", {"--from-list", "/dev/null", "--labels", "a"}, "--from-csv"},
    {"RootOfNothing", "x-%d.tar", {"--synthetic", "classes", "--root", "/"}, "--root"},
    {"ReservedColumn",
     "x-%d.tar",
     {"--from-csv", "/dev/null", "--path", "{a}", "--columns", "labels"},
     "labels"},
    {"GroupsOfNothing",
     "x-%d.tar",
     {"--synthetic", "scenes", "--group-by", "patient"},
     "--group-by"},
    {"ResizeToNothing", "x-%d.tar", {"--from-folder", "/", "--resize", "0"}, "--resize '0'"},
    {"ResizeByHalf", "x-%d.tar", {"--from-folder", "/", "--resize", "3x"}, "--resize '3x'"},
    {"ResizeOfMadeUp", "x-%d.tar", {"--synthetic", "classes", "--resize", "9"}, "--size"},
    {"QualityOfNothing", "x-%d.tar", {"--from-folder", "/", "--quality", "5"}, "--quality"},
    {"PairOfNothing", "x-%d.tar", {"--from-list", "/dev/null", "--pair", "a=/"}, "--from-folder"},
    {"PairWithoutFolder", "x-%d.tar", {"--from-folder", "/", "--pair", "mask"}, "NAME=FOLDER"},
    {"PairOfNoFolder", "x-%d.tar", {"--from-folder", "/", "--pair", "mask=none"}, "none"},
    {"PairOfABadName", "x-%d.tar", {"--from-folder", "/", "--pair", "Mask/=/"}, "small letters"},
    {"TwoPairsOfOneName",
     "x-%d.tar",
     {"--from-folder", "/", "--pair", "mask=/", "--pair", "mask=/tmp"},
     "mask"},
    {"ResizeWithPairs",
     "x-%d.tar",
     {"--from-folder", "/", "--pair", "mask=/", "--resize", "64"},
     "--resize"},
    {"MissingCifar", "x-%d.tar", {"--from-cifar", "none.bin"}, "none.bin"},
    {"UnknownFormat", "x-%d.tar", {"--synthetic", "classes", "--format", "gif"}, "gif"},
};

INSTANTIATE_TEST_SUITE_P(Bad, CreateUsage, ::testing::ValuesIn(kBadCreates),
                         [](const auto& use) { return use.param.what; });

}  // namespace
}  // namespace millrace::testing
