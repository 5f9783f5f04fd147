// Usage errors: exit status 2, one line, in under a second, and nothing written.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/tools/support.h"

namespace millrace::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

struct BadUse {
  std::string what;
  std::vector<std::string> words;
  std::string says;
};

void PrintTo(const BadUse& use, std::ostream* os) { *os << use.what; }

class Usage : public ::testing::TestWithParam<BadUse> {};

/// @S stands for shards that exist, @D for the test's folder.
std::vector<std::string> fill_in(std::vector<std::string> words, const TempDir& dir,
                                 const std::string& shards) {
  for (std::string& word : words) {
    for (auto at = word.find("@S"); at != word.npos; at = word.find("@S")) {
      word.replace(at, 2, shards);
    }
    if (const auto at = word.find("@D"); at != word.npos) word.replace(at, 2, dir.path().string());
  }
  return words;
}

TEST_P(Usage, IsRefusedInOneLineAndNothingIsMade) {
  const TempDir shards_dir;
  const std::string shards = make_set(shards_dir, 8, 4);
  const TempDir dir;
  const auto words = fill_in(GetParam().words, dir, shards);
  const ProcessResult result = millrace(words, {.folder = dir.path().string()});
  EXPECT_EQ(result.status, 2) << result.err;
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  EXPECT_THAT(result.err, HasSubstr(GetParam().says));
  EXPECT_EQ(result.out, "");
  EXPECT_TRUE(list_dir(dir.path().string()).empty());
}

const std::vector<BadUse> kBadUses = {
    {"NoCommand", {}, "which command"},
    {"UnknownCommand", {"frobnicate"}, "frobnicate"},
    {"UnknownOption", {"ls", "@S", "--colour"}, "--colour"},
    {"UnknownConfigFile", {"ls", "@S", "--config", "none.toml"}, "none.toml"},
    {"ReportOfARunTwice", {"report", "@D/r", "@D/./r", "-o", "r.html"}, "are one"},
    {"MergeOfATraceTwice",
     {"trace", "merge", "t.json", "t.json", "-o", "all.json"},
     "t.json is named twice"},
    {"UnknownOptionWithoutSpec", {"ls", "--bad"}, "--bad"},
    {"NoSpec", {"ls"}, "SPEC"},
    {"NoShardMatches", {"ls", "@D/none-{000000..000003}.tar"}, "none-000000.tar"},
    {"EmptyFolder", {"ls", "@D"}, "shard"},
    {"UnbalancedBraces", {"ls", "@D/{000000..000003.tar"}, "brace"},
    {"BraceBomb", {"ls", "@D/{0..999}{0..999}{0..999}.tar"}, "1000000"},
    {"DuplicateShard", {"ls", "@S::@S"}, "set-000000.tar"},
    {"BadFaultBudget", {"ls", "@S", "--on-fault", "skip", "--max-faults", "many"}, "many"},
    {"BudgetWithoutSkipping", {"ls", "@S", "--max-faults", "3"}, "--on-fault"},
    {"MemberWithoutSuffix", {"cat", "@S", "noext"}, "noext"},
    {"ProcessOutsideOfProcesses",
     {"order", "@S", "--processes", "2", "--process", "2"},
     "process 2 is outside of 2 processes"},
    {"StreamsNoMultipleOfProcesses",
     {"order", "@S", "--processes", "2", "--streams", "3"},
     "3 streams"},
    {"FewerShardsThanStreams", {"order", "@S", "--workers", "3", "--no-scan"}, "2 shards"},
    {"TrainInNoOrder", {"train", "--train", "@S", "--order", "sideways"}, "sideways"},
    {"WebDatasetsOrderDividesWholeShards",
     {"bench", "@S", "--order", "webdataset", "--workers", "3"},
     "2 shards"},
    {"IndexOfAPipe", {"index", "-"}, "pipe"},
    {"DaliOfAPackedShard", {"index", "https://host/a.tar.gz", "--out", "@D", "--dali"}, "plain"},
    {"IndexWithoutAPlace", {"index", "https://host/a.tar"}, "--out"},
    {"ViewWithoutAPlace", {"view", "@S"}, "--output"},
    {"ViewWhereNothingCanBeWritten", {"view", "@S", "-o", "/proc/x.png"}, "/proc"},
    {"RenameToNothing", {"reshard", "@S", "@D/x-%06d.tar", "--rename", "jpg"}, "OLD=NEW"},
    {"BufferWithoutShuffle", {"reshard", "@S", "@D/x-%06d.tar", "--buffer", "9"}, "--shuffle"},
    {"NoPattern", {"create", "--synthetic", "classes"}, "PATTERN"},
    {"PatternWithoutNumber", {"create", "@D/x.tar", "--synthetic", "classes"}, "%"},
    {"NoSource", {"create", "@D/x-%06d.tar"}, "--from-folder"},
    {"TwoSources",
     {"create", "@D/x-%06d.tar", "--synthetic", "classes", "--from-folder", "@D"},
     "--from-folder"},
    {"MissingFolder", {"create", "@D/x-%06d.tar", "--from-folder", "@D/none"}, "none"},
    {"FolderWithoutImages", {"create", "@D/x-%06d.tar", "--from-folder", "@D"}, "no jpg"},
    {"UnknownSyntheticKind", {"create", "@D/x-%06d.tar", "--synthetic", "cubism"}, "cubism"},
    {"TooManyClasses",
     {"create", "@D/x-%06d.tar", "--synthetic", "classes", "--classes", "1000"},
     "1000"},
    {"ZeroMaxcount",
     {"create", "@D/x-%06d.tar", "--synthetic", "classes", "--maxcount", "0"},
     "--maxcount"},
    {"SizeWithoutSense",
     {"create", "@D/x-%06d.tar", "--synthetic", "classes", "--maxsize", "3 apples"},
     "apples"},
    {"UnwritablePlace", {"create", "/proc/x/x-%06d.tar", "--synthetic", "classes"}, "/proc"},
    {"BatchOfNone", {"bench", "@S", "--batch", "0"}, "--batch"},
    {"NegativeThreads", {"bench", "@S", "--threads", "-1"}, "--threads"},
    {"PrefetchOfNone", {"bench", "@S", "--prefetch", "0"}, "--prefetch"},
    {"CacheOfNoSize", {"bench", "@S", "--cache-decoded", "3 apples"}, "--cache-decoded"},
    {"CacheInNoFolder",
     {"bench", "@S", "--cache-decoded", "1MB", "--cache-decoded-in", "@D/none"},
     "none"},
    {"FolderOfNoCache", {"bench", "@S", "--cache-decoded-in", "@D"}, "--cache-decoded"},
    {"TrainWithoutShards", {"train", "--model", "lenet"}, "no shards given"},
    {"UnknownModel", {"train", "--train", "@S", "--model", "vgg99"}, "vgg99"},
    {"UnknownPrecision", {"train", "--train", "@S", "--precision", "fp7"}, "fp7"},
    {"TrainBatchOfNone", {"train", "--train", "@S", "--batch-size", "0"}, "--batch-size"},
    {"NegativeRate", {"train", "--train", "@S", "--lr", "-1"}, "--optimizer.lr"},
    {"NoDevices", {"train", "--train", "@S", "--devices", "0"}, "device"},
    {"FewerShardsThanWorkers",
     {"train", "--train", "@S", "--workers", "3", "--no-scan"},
     "2 shards"},
    {"NoCheckpoint", {"train", "--train", "@S", "--resume", "@D/none"}, "none"},
    {"UnwritableRunDir", {"train", "--train", "@S", "--run-dir", "/proc/run"}, "/proc"},
    {"MissingValidation", {"train", "--train", "@S", "--val", "@D/none.tar"}, "none.tar"},
    {"ImageTooSmallForModel",
     {"train", "--train", "@S", "--model", "lenet", "--size", "4"},
     "smaller than the kernel"},
    {"FoldWithoutFolds", {"train", "--train", "@D/fold{fold}"}, "--folds"},
    {"FoldsWithoutFold", {"train", "--train", "@S", "--folds", "3"}, "{fold}"},
    {"FoldOutsideOfFolds",
     {"train", "--train", "@D/fold{fold}", "--folds", "3", "--fold", "3"},
     "the last one is 2"},
    {"ReplaceHeadWithoutInit", {"train", "--train", "@S", "--replace-head"}, "--init"},
    {"NoWeights", {"train", "--train", "@S", "--init", "@D/none.safetensors"}, "none.safetensors"},
    {"InitAndResume", {"train", "--train", "@S", "--init", "x", "--resume", "y"}, "--resume"},
    {"UnknownMeasure", {"train", "--train", "@S", "--monitor", "loss"}, "train_loss"},
    {"MeasureOfNoEvaluation", {"train", "--train", "@S", "--monitor", "val_loss"}, "without --val"},
    {"MeanOfBytes", {"train", "--train", "@S", "--mean", "127.5"}, "is 127.5 of 255"},
    {"StdOfBytes", {"train", "--train", "@S", "--std", "58.4"}, "is 58.4 of 255"},
    {"TargetWithoutValidation", {"train", "--train", "@S", "--target-accuracy", "50"}, "--val"},
    {"SanityWithoutValidation", {"train", "--train", "@S", "--sanity-val-steps", "2"}, "--val"},
    {"OverfitAndVal",
     {"train", "--train", "@S", "--val", "@S", "--overfit-batches", "2"},
     "--overfit-batches"},
    {"OverfitAndLimit",
     {"train", "--train", "@S", "--overfit-batches", "2", "--limit-train-batches", "3"},
     "--overfit-batches"},
    {"FakeAndReal", {"train", "--train", "@S", "--fake-data", "100"}, "--fake-data"},
    {"ScaledRateOfNobody", {"train", "--train", "@S", "--scale-lr"}, "sgd(0.1)"},
    {"MomentumOfAdam",
     {"train", "--train", "@S", "--momentum", "0.9", "--optimizer", "adam"},
     "--optimizer.momentum is a parameter of sgd, lars and muon, not of adam(lr, "},
    {"GoneSchedule",
     {"train", "--train", "@S", "--schedule", "warmup-exponential"},
     "'step(30, gamma=0.2, warmup=0.9ep)'"},
    {"GoneDivisor", {"train", "--train", "@S", "--divisor", "5"}, "--divisor is gone: --schedule"},
    {"WrongParameter",
     {"train", "--train", "@S", "--optimizer", "sgd(0.1, momentun=0.9)"},
     "column 10: sgd has no 'momentun'; did you mean momentum? (sgd(lr, momentum=0.9, "},
    {"ParameterOutOfRange",
     {"train", "--train", "@S", "--optimizer", "sgd(0.1, momentum=1.5)"},
     "column 10: momentum must be at least 0 and below 1"},
    {"WarmupWithoutUnit",
     {"train", "--train", "@S", "--schedule", "cosine(warmup=5)"},
     "must have a unit: 5ep or 100steps"},
    {"WarmupOfOneCycle",
     {"train", "--train", "@S", "--schedule", "one-cycle", "--warmup-epochs", "1"},
     "--schedule.warmup is a parameter of constant"},
    {"NesterovOfAdam", {"train", "--train", "@S", "--nesterov", "--optimizer", "adam"}, "sgd"},
    {"MilestonesOfCosine", {"train", "--train", "@S", "--milestones", "3,5"}, "multi-step"},
    {"MultiStepWithoutMilestones",
     {"train", "--train", "@S", "--schedule", "multi-step"},
     "milestones=[30, 60, 80]"},
    {"MilestonesThatFall",
     {"train", "--train", "@S", "--schedule", "multi-step", "--milestones", "5,3"},
     "increase"},
    {"TimeWithoutUnit", {"train", "--train", "@S", "--max-time", "3 apples"}, "--max-time"},
    {"WorkersAndStreams",
     {"train", "--train", "@S", "--workers", "2", "--streams", "2"},
     "--streams"},
    {"BatchSizeAndGlobalBatch",
     {"train", "--train", "@S", "--batch-size", "2", "--global-batch", "2"},
     "--global-batch"},
    {"GlobalBatchThatDevicesCannotShare",
     {"train", "--train", "@S", "--devices", "2", "--global-batch", "3", "--run-dir", "@D/run"},
     "2 or 4"},
    {"UploadOfNothing",
     {"train", "--train", "@S", "--run-dir", "none", "--upload", "http://x"},
     "--run-dir"},
    {"TaskOfAnotherModel", {"train", "--train", "@S", "--task", "mask-depth"}, "resnet18"},
    {"SmoothedLabels",
     {"train", "--train", "@S", "--task", "multilabel", "--label-smoothing", "0.1"},
     "--task.label-smoothing is a parameter of classify, segment and segment-depth"},
    {"AnotherModelsParameter",
     {"train", "--train", "@S", "--model", "lenet", "--stem", "3x3"},
     "--model.stem is a parameter of resnet18, resnet34, resnet50, resnext50_32x4d and "
     "wide_resnet50_2, not of lenet()"},
    {"ALossOfOtherTargets",
     {"train", "--train", "@S", "--task", "depth(depth_loss=bce)"},
     "depth_loss is one of l1, mse, rmse, berhu, gradient, ssim, not bce"},
    {"ViewsOfSeveralSizes",
     {"train", "--train", "@S", "--multi-crop", "views(2, 224)"},
     "--task contrast compares views of one size"},
    {"ModelOfNoDecoding",
     {"bench", "@S", "--stage", "read", "--model", "vit_s_16"},
     "--model is for --stage decode and train"},
    {"CacheOfNoDecoding",
     {"bench", "@S", "--stage", "read", "--cache-decoded", "1MB"},
     "--cache-decoded is for --stage decode"},
    {"PrecisionOfNoDecoding",
     {"bench", "@S", "--stage", "read", "--precision", "fp32"},
     "--precision is for --stage decode"},
    {"PicturesNotDrawn", {"eval", "@S", "--checkpoint", "@D", "--num-pictures", "3"}, "--pictures"},
    {"BestOfNoFolder",
     {"train", "--train", "@S", "--run-dir", "none", "--save-top-k", "3"},
     "--save-top-k needs a --run-dir"},
    {"StepsOfNoFolder",
     {"train", "--train", "@S", "--run-dir", "none", "--save-every-steps", "1"},
     "--save-every-steps needs a --run-dir"},
    {"FillOfNoFaults", {"train", "--train", "@S", "--fill"}, "--fill is for --on-fault skip"},
    {"MeanOfNoNumber", {"train", "--train", "@S", "--mean", "nan"}, "mean must be a finite number"},
    {"EvalWithoutCheckpoint", {"eval", "@S", "--checkpoint", "@D/none"}, "none"},
};

INSTANTIATE_TEST_SUITE_P(Bad, Usage, ::testing::ValuesIn(kBadUses),
                         [](const auto& use) { return use.param.what; });

TEST(Usage, AnUnknownConfigKeyIsRefused) {
  const TempDir dir;
  write_file(dir / "c.toml", "limit = 3\ncolour = true\n");
  const ProcessResult result = millrace({"ls", "x.tar", "--config", dir / "c.toml"});
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.err, HasSubstr("colour"));
}

TEST(Usage, AConfigFileGivesDefaultsThatTheCommandLineOverrides) {
  const TempDir dir;
  const std::string shards = make_set(dir, 8, 4);
  write_file(dir / "c.toml", "limit = 3\njson = true\n");
  const auto three = millrace({"ls", shards, "--config", dir / "c.toml"});
  EXPECT_EQ(json_lines(three.out).size(), 3U) << three.err;
  const auto one = millrace({"ls", shards, "--config", dir / "c.toml", "--limit", "1"});
  EXPECT_EQ(json_lines(one.out).size(), 1U) << one.err;
}

TEST(Usage, EveryCommandHasHelpWithAnExample) {
  const std::string overview = millrace({"--help"}).out;
  for (const std::string name : {"create", "ls", "cat", "view", "stats", "verify", "index",
                                 "reshard", "order", "bench", "train", "eval"}) {
    EXPECT_THAT(overview, HasSubstr("  " + name + " "));
    const ProcessResult result = millrace({name, "--help"});
    EXPECT_EQ(result.status, 0);
    EXPECT_THAT(result.out, HasSubstr("Example:\n  millrace " + name));
  }
}

TEST(Usage, HelpOnComponentsFitsATerminal) {
  for (const std::string topic :
       {"segment", "mask-depth", "sgd", "one-cycle", "resnet50", "task", "augment"})
    for (const std::string& line : lines_of(millrace({"train", "--help", topic}).out))
      EXPECT_LE(line.size(), 80U) << line;
}

TEST(Usage, VersionSaysWhatTheBuildHas) {
  const std::string out = millrace({"--version"}).out;
  EXPECT_THAT(out, StartsWith("millrace 0."));
  EXPECT_THAT(out, AllOf(HasSubstr("\ntraining:  oneDNN "), HasSubstr("\nprocesses: "),
                         HasSubstr("\nthreads:   oneTBB 20"), HasSubstr("\nnetwork:   libcurl/"),
                         HasSubstr("\narchives:  libarchive ")));
  EXPECT_EQ(millrace({"train", "--version"}).out, out);
  const std::string older =
      millrace({"version"}, {.environment = {{"ONEDNN_MAX_CPU_ISA", "AVX2"}}}).out;
  EXPECT_THAT(older, HasSubstr(" without bf16: bf16 is float32, rounded\n"));
}

TEST(Usage, AClosedPipeEndsQuietly) {
  const TempDir dir;
  const std::string shards = make_set(dir, 2000, 1000, {"--format", "ppm"});
  const ProcessResult result = run_process(
      {"/bin/sh", "-c", std::string(MILLRACE_PROGRAM) + " ls --json '" + shards + "' | head -n 1"});
  EXPECT_EQ(json_lines(result.out).size(), 1U);
  EXPECT_EQ(result.err, "");
}

TEST(Usage, HelpThatCannotBeWrittenIsAFault) {
  for (const std::string words : {"--help", "train --help", "train --help optimizer", "version"}) {
    const ProcessResult result =
        run_process({"/bin/sh", "-c", MILLRACE_PROGRAM " " + words + " > /dev/full"});
    EXPECT_EQ(result.status, 1) << words;
    EXPECT_THAT(result.err, HasSubstr("No space left on device")) << words;
  }
}

// ---- create ----

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
    {"ClassesOfSegments",
     "x-%d.tar",
     {"--synthetic", "segments", "--classes", "4"},
     "--classes is for --synthetic classes and multilabel"},
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
