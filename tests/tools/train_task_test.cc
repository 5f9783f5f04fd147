// Tasks other than classification: several labels per sample; a mask and a depth.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <filesystem>
#include <set>
#include <span>

#include "decode/encode.h"
#include "decode/image.h"
#include "io/base/hash.h"
#include "tests/tools/support.h"
#include "wds/shard_writer.h"

namespace millrace::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

const std::vector<std::string> kLabelled = {
    "--model", "lenet",  "--task",      "multilabel", "--channels",   "3", "--size", "16", "--lr",
    "0.003",   "--json", "--optimizer", "adam",       "--batch-size", "16"};

ProcessResult run(const std::string& command, std::vector<std::string> words,
                  const std::vector<std::string>& more) {
  words.insert(words.begin(), command);
  words.insert(words.end(), more.begin(), more.end());
  return millrace(words);
}

TEST(TrainMultilabel, LearnsItsLabelsAndEvalScoresThemAlike) {
  const TempDir dir;
  const std::string shards = make_labelled_set(dir, 200);
  const ProcessResult result =
      run("train", kLabelled,
          {"--train", shards, "--val", shards, "--epochs", "6", "--run-dir", dir / "run",
           "--monitor", "val_auroc", "--precision", "fp32"});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.err, AllOf(HasSubstr("3 labels"), HasSubstr("auroc=")));
  const auto events = json_lines(result.out);
  const auto& epoch = events[events.size() - 2];
  EXPECT_GT(epoch["val_auroc"], 0.9);
  EXPECT_GT(events.back()["best"], 0.9);

  const ProcessResult scored =
      millrace({"eval", shards, "--checkpoint", dir / "run/checkpoints/last", "--json",
                "--precision", "fp32", "--devices", "2"});
  ASSERT_EQ(scored.status, 0) << scored.err;
  EXPECT_NEAR(json_lines(scored.out).at(0)["val_auroc"].get<double>(),
              epoch["val_auroc"].get<double>(), 1e-6);
}

TEST(TrainContrast, LearnsWhichPicturesAreTheSameAndWritesEmbeddings) {
  const TempDir dir;
  const std::string shards = make_set(dir, 64, 32);
  const std::vector<std::string> contrast = {
      "--task", "contrast(features=16)", "--model", "lenet",       "--batch-size",
      "32/all", "--optimizer",           "adam",    "--precision", "fp32"};
  const ProcessResult result = run(
      "train", contrast,
      {"--train", shards, "--val", shards, "--order", "permutation(copies=2)", "--augment",
       "rcrop(padding=3)", "--devices", "2", "--epochs", "8", "--json", "--run-dir", dir / "run"});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("16 features"));
  std::vector<double> losses;
  for (const auto& line : json_lines(result.out))
    if (line["event"] == "epoch") losses.push_back(line["train_loss"]);
  ASSERT_EQ(losses.size(), 8U);
  EXPECT_LT(losses.back(), 0.9 * losses.front());

  const ProcessResult rows = millrace({"predict", shards, "--checkpoint", dir / "run"});
  ASSERT_EQ(rows.status, 0) << rows.err;
  EXPECT_THAT(rows.out, AllOf(HasSubstr("key,feature0,feature1,"), HasSubstr(",feature15\n")));
  EXPECT_EQ(std::ranges::count(rows.out, '\n'), 65);

  const auto refusal = [&](const std::vector<std::string>& more) {
    const ProcessResult refused = run("train", contrast, more);
    EXPECT_EQ(refused.status, 2);
    return refused.err;
  };
  EXPECT_THAT(refusal({"--train", shards}), HasSubstr("--order 'permutation(copies=2)'"));
  EXPECT_THAT(refusal({"--train", shards, "--copies", "2", "--classes", "7"}),
              HasSubstr("--task.features says how many outputs"));
  EXPECT_THAT(refusal({"--train", shards, "--copies", "2", "--overfit-batches", "1"}),
              HasSubstr("--overfit-batches takes one view"));
  EXPECT_THAT(refusal({"--train", shards, "--copies", "2", "--task.temperature", "0"}),
              HasSubstr("temperature"));
}

/// Pictures of one of four colours, each with its name as the caption.
std::string make_captioned_set(const TempDir& dir, int count, const std::string& suffix) {
  const std::array<std::array<std::uint8_t, 3>, 4> colours = {
      {{220, 30, 30}, {30, 200, 30}, {30, 30, 220}, {220, 220, 30}}};
  const std::array<std::string, 4> names = {"a red picture", "a green picture", "a blue picture",
                                            "a yellow picture, r\u00e9el"};
  wds::ShardWriter writer({.pattern = dir / "captioned-%06d.tar", .maxcount = 32});
  for (int i = 0; i < count; ++i) {
    const auto which = static_cast<std::size_t>(i) % colours.size();
    std::vector<std::uint8_t> pixels;
    for (int p = 0; p < 16 * 16; ++p)
      for (const std::uint8_t level : colours[which])
        pixels.push_back(static_cast<std::uint8_t>(level + (p * 7 + i * 5) % 30));
    const std::string text =
        suffix == "txt" ? names[which] : "{\"caption\": \"" + names[which] + "\"}";
    writer.write({.key = std::to_string(i),
                  .fields = {{"png", decode::encode_png({.height = 16,
                                                         .width = 16,
                                                         .channels = 3,
                                                         .pixels = io::Bytes::copy_of(
                                                             std::as_bytes(std::span(pixels)))})},
                             {suffix, io::Bytes::copy_of(text)}}});
  }
  writer.finish();
  return dir / "captioned-{000000..000001}.tar";
}

TEST(TrainClip, LearnsWhichCaptionIsOfWhichPicture) {
  const TempDir dir;
  const std::string shards = make_captioned_set(dir, 64, "txt");
  const std::string task =
      "clip(16, text_length=20, text_width=16, text_depth=1, text_heads=2, temperature=0.2)";
  const std::vector<std::string> clip = {
      "--task", task,           "--model", "lenet",       "--channels",  "3",        "--size",
      "16",     "--batch-size", "8/all",   "--optimizer", "adam(0.003)", "--uneven", "drop"};
  const ProcessResult result =
      run("train", clip,
          {"--train", shards, "--val", shards, "--devices", "2", "--epochs", "20", "--json",
           "--monitor", "val_image_to_text_r1", "--run-dir", dir / "run"});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("16 features of pictures and texts"));
  const auto events = json_lines(result.out);
  const auto& epoch = events[events.size() - 2];
  for (const char* measure : {"val_image_to_text_r1", "val_text_to_image_r1"})
    EXPECT_GT(epoch[measure], 0.7) << "of the whole set, where each caption comes sixteen times";
  EXPECT_GT(events.back()["best"], 0.7);

  const ProcessResult scored =
      millrace({"eval", shards, "--checkpoint", dir / "run/checkpoints/last", "--batch-size", "5",
                "--json"});
  ASSERT_EQ(scored.status, 0) << scored.err;
  EXPECT_GT(json_lines(scored.out).at(0)["val_text_to_image_r5"], 0.7);
  const ProcessResult rows = millrace({"predict", shards, "--checkpoint", dir / "run"});
  ASSERT_EQ(rows.status, 0) << rows.err;
  EXPECT_THAT(rows.out, AllOf(HasSubstr("key,feature0,feature1,"), HasSubstr(",feature31\n")));
}

/// A tokenizer.json of bytes, some of which are merged, with <s> and <e> around each text.
std::string write_tokenizer(const TempDir& dir, const std::string& name,
                            const std::vector<std::string>& merges) {
  nlohmann::json vocabulary;
  for (char letter = '!'; letter <= '~'; ++letter)
    vocabulary[std::string(1, letter)] = vocabulary.size() + 250;
  for (const char* piece : {"\u0120", "\u00c3", "\u00a9", "<s>", "<e>"})
    vocabulary[piece] = vocabulary.size() + 250;
  for (const std::string& merge : merges)
    vocabulary[merge.substr(0, merge.find(' ')) + merge.substr(merge.find(' ') + 1)] =
        vocabulary.size() + 250;
  write_file(dir / name,
             nlohmann::json{{"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}}},
                            {"post_processor",
                             {{"type", "RobertaProcessing"},
                              {"cls", {"<s>", vocabulary["<s>"]}},
                              {"sep", {"<e>", vocabulary["<e>"]}}}},
                            {"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", merges}}}}
                 .dump());
  return dir / name;
}

TEST(TrainClip, TakesATokenizersTokensAndKnowsItAgain) {
  const TempDir dir;
  const std::string shards = make_captioned_set(dir, 64, "txt");
  const std::string tokenizer = write_tokenizer(dir, "t.json", {"r e", "re d", "e e", "u re"});
  const std::string own =
      "clip(16, text_length=16, text_width=16, text_depth=1, text_heads=2, "
      "temperature=0.2, text_pool=end, text_causal, tokenizer=";
  const auto trained = [&](const std::string& file, const std::vector<std::string>& more) {
    std::vector<std::string> words = {
        "--task",    own + file + ")", "--model",   "lenet",       "--channels",
        "3",         "--size",         "16",        "--train",     shards,
        "--val",     shards,           "--devices", "2",           "--batch-size",
        "8/all",     "--uneven",       "drop",      "--json",      "--run-dir",
        dir / "run", "--resume",       "auto",      "--optimizer", "adam(0.003)"};
    return run("train", words, more);
  };
  const ProcessResult first = trained(tokenizer, {"--epochs", "10"});
  ASSERT_EQ(first.status, 0) << first.err;
  const ProcessResult result = trained(tokenizer, {"--epochs", "20"});
  ASSERT_EQ(result.status, 0) << result.err;
  const auto events = json_lines(result.out);
  EXPECT_GT(events[events.size() - 2]["val_image_to_text_r1"], 0.7);
  const std::string config = read_file(dir / "run/config.json");
  EXPECT_THAT(config, HasSubstr("tokenizer_sha256"));

  const std::vector<std::string> eval = {"eval", shards, "--checkpoint", dir / "run", "--json"};
  const ProcessResult scored = millrace(eval);
  ASSERT_EQ(scored.status, 0) << scored.err;
  EXPECT_GT(json_lines(scored.out).at(0)["val_text_to_image_r5"], 0.7);

  const std::string other = write_tokenizer(dir, "other.json", {"r e", "re d", "e e", "a n"});
  const ProcessResult mixed = trained(other, {"--epochs", "21"});
  EXPECT_EQ(mixed.status, 2);
  EXPECT_THAT(mixed.err, HasSubstr("the run began with another tokenizer"));
  std::filesystem::copy_file(other, tokenizer, std::filesystem::copy_options::overwrite_existing);
  for (const ProcessResult& changed : {millrace(eval), trained(tokenizer, {"--epochs", "21"})}) {
    EXPECT_NE(changed.status, 0);
    EXPECT_THAT(changed.err, AllOf(HasSubstr("t.json is not the tokenizer that the run began with"),
                                   HasSubstr("SHA-256")));
  }
  std::filesystem::remove(tokenizer);
  EXPECT_THAT(millrace(eval).err, HasSubstr("t.json: No such file"));
}

TEST(TrainClip, RefusesTokenizersThatItCannotRead) {
  const TempDir dir;
  const auto refusal = [&](const std::string& more) {
    return millrace({"train", "--train", dir / "none.tar", "--model", "lenet", "--task",
                     "clip(16, " + more + ")"})
        .err;
  };
  EXPECT_THAT(refusal("tokenizer=nowhere.json"), HasSubstr("nowhere.json: No such file"));
  EXPECT_THAT(refusal("tokenizer='https://example.org/tokenizer.json'"),
              HasSubstr("a file of this machine"));
  write_file(dir / "words.json", R"({"model": {"type": "WordPiece"}})");
  EXPECT_THAT(refusal("tokenizer=" + dir / "words.json"),
              AllOf(HasSubstr("model WordPiece is not supported"), HasSubstr("words.json")));
  const std::string tokenizer = write_tokenizer(dir, "t.json", {});
  EXPECT_THAT(refusal("text_length=2, tokenizer=" + tokenizer), HasSubstr("no room"));
  EXPECT_THAT(refusal("text_length=3, text_end=260, tokenizer=" + tokenizer), HasSubstr("no room"));
  EXPECT_THAT(refusal("text_end=5000, tokenizer=" + tokenizer), HasSubstr("has no token 5000"));
  EXPECT_THAT(refusal("text_end=1"), HasSubstr("tokens of a tokenizer"));
  EXPECT_THAT(refusal("text_causal"), HasSubstr("text_causal is for text_pool=end"));
  write_file(dir / "damaged.model", "\n\x05\n\x03<s>");
  EXPECT_THAT(refusal("tokenizer=" + dir / "damaged.model"),
              AllOf(HasSubstr("not a SentencePiece model"), HasSubstr("damaged.model")));
}

TEST(TrainClip, ReadsJsonAndRefusesWhatHasNoCaptionOrDoesNotFit) {
  const TempDir dir;
  const std::string shards = make_captioned_set(dir, 64, "json");
  const std::vector<std::string> clip = {"--train",      shards, "--model",       "lenet",
                                         "--channels",   "3",    "--size",        "16",
                                         "--batch-size", "8",    "--fast-dev-run"};
  const auto tried = [&](const std::string& task) { return run("train", clip, {"--task", task}); };
  const std::string small = "text_length=20, text_width=16, text_depth=1, text_heads=2";
  const ProcessResult json =
      tried("clip(16, text_field=json, text_key=caption, learned=false, " + small + ")");
  EXPECT_EQ(json.status, 0) << json.err;
  const ProcessResult none = tried("clip(16, " + small + ")");
  EXPECT_EQ(none.status, 1);
  EXPECT_THAT(none.err, AllOf(HasSubstr("the sample has no txt"), HasSubstr("captioned-00000")));
  const ProcessResult heads = tried("clip(16, text_width=16, text_heads=3)");
  EXPECT_EQ(heads.status, 2);
  EXPECT_THAT(heads.err, HasSubstr("a text_width of 16 cannot be shared by 3 heads"));
  EXPECT_THAT(tried("clip(16, temperature=2)").err, HasSubstr("from 0.01 to 1"));
}

/// Changes what a checkpoint says of its run.
template <typename Change>
void change_state(const std::string& folder, const Change& change) {
  const std::string path = folder + "/state.json";
  auto state = nlohmann::ordered_json::parse(read_file(path));
  change(state);
  const std::string text = state.dump();
  Sha256 hash;
  hash.update(std::as_bytes(std::span(text)));
  auto manifest = nlohmann::json::parse(read_file(folder + "/manifest.json"));
  manifest["files"]["state.json"] = {{"bytes", text.size()}, {"sha256", hash.hex()}};
  write_file(path, text);
  write_file(folder + "/manifest.json", manifest.dump());
}

/// Changes what a checkpoint says of its model and task.
template <typename Change>
void change_options(const std::string& folder, const Change& change) {
  change_state(folder, [&](nlohmann::ordered_json& state) { change(state["options"]); });
}

/// Makes a checkpoint one that does not say how pictures were fitted.
void forget_fit(const std::string& folder) {
  change_options(folder,
                 [](nlohmann::ordered_json& options) { ASSERT_EQ(options.erase("fit"), 1U); });
}

/// Makes it one from before models and tasks were components: their fields stand beside their
/// names.
void flatten_components(nlohmann::ordered_json& options) {
  for (const char* key : {"model", "task"}) {
    const nlohmann::ordered_json component = options.at(key);
    for (const auto& [name, value] : component.items()) options[name] = value;
    options.erase("name");
    options[key] = component.at("name");
  }
  options.erase("width");  // all U-Nets had the usual one then
}

// Another loss, weight or stem would be another model, or another loss.
TEST(TrainTask, ACheckpointFromBeforeComponentsIsTheSame) {
  const TempDir dir;
  const std::string pictures = make_set(dir, 8, 16);
  const std::string scenes = make_scene_set(dir, 4, 32, 255);
  for (const auto& [model, task, shards] : std::vector<std::array<std::string, 3>>{
           {"resnet18(stem=3x3)", "classify(label_smoothing=0.1)", pictures},
           {"unet", "mask-depth(mask_loss=dice, mask_value=255, loss_weights=[1, 0.5])", scenes}}) {
    const std::string run = dir / task.substr(0, 4);
    const ProcessResult trained =
        millrace({"train", shards, "--val", shards, "--model", model, "--task", task, "--size",
                  "32", "--batch-size", "4", "--precision", "fp32", "--json", "--run-dir", run});
    ASSERT_EQ(trained.status, 0) << trained.err;
    const auto events = json_lines(trained.out);
    const std::string last = run + "/checkpoints/last";
    change_options(last, flatten_components);
    const ProcessResult scored =
        millrace({"eval", shards, "--checkpoint", last, "--json", "--precision", "fp32"});
    ASSERT_EQ(scored.status, 0) << scored.err;
    EXPECT_NEAR(json_lines(scored.out).at(0)["val_loss"].get<double>(),
                events[events.size() - 2]["val_loss"].get<double>(), 1e-5);
  }
}

// Its weights say 64 whether its options do or not; other widths are other models.
TEST(TrainTask, ACheckpointOfAUNetFromBeforeItsWidthContinues) {
  const TempDir dir;
  const std::string scenes = make_scene_set(dir, 2, 32);
  const auto train = [&](const std::string& model, const std::string& epochs) {
    return millrace({"train", scenes, "--model", model, "--size", "32", "--batch-size", "2",
                     "--schedule", "constant", "--precision", "fp32", "--epochs", epochs,
                     "--run-dir", dir / "run", "--resume", "auto"});
  };
  const ProcessResult trained = train("unet", "1");
  ASSERT_EQ(trained.status, 0) << trained.err;
  change_state(dir / "run/checkpoints/last", [](nlohmann::ordered_json& state) {
    ASSERT_EQ(state["options"]["model"].erase("width"), 1U);
    auto kept = nlohmann::ordered_json::array();
    for (const auto& setting : state["settings"])
      if (setting[0] != "--model.width") kept.push_back(setting);
    ASSERT_EQ(kept.size() + 1, state["settings"].size());
    state["settings"] = kept;
  });
  const ProcessResult other = train("unet(width=16)", "2");
  EXPECT_NE(other.status, 0);
  EXPECT_THAT(other.err, HasSubstr("weights of another model"));
  const ProcessResult resumed = train("unet", "2");
  EXPECT_EQ(resumed.status, 0) << resumed.err;
  EXPECT_THAT(resumed.err, HasSubstr("--epochs: 1 saved, 2 given"));
}

// Pictures are 24 x 36 and seen at 16 x 16: every way to fit them gives other values.
TEST(TrainFit, ACheckpointEvaluatesAsItWasTrainedWhetherItSaysHowOrNot) {
  const TempDir dir;
  ASSERT_EQ(millrace({"create", dir / "p-%06d.tar", "--synthetic", "classes", "--count", "24",
                      "--size", "24x36"})
                .status,
            0);
  const std::string shard = dir / "p-000000.tar";
  const auto loss_of = [&](const std::string& name) {
    const ProcessResult scored = millrace(
        {"eval", shard, "--checkpoint", dir / (name + "/last"), "--json", "--precision", "fp32"});
    EXPECT_EQ(scored.status, 0) << scored.err;
    return json_lines(scored.out).at(0)["val_loss"].get<double>();
  };
  std::set<double> losses;
  for (const auto& [fit, augment] : std::vector<std::pair<std::string, std::string>>{
           {"cover", "crop-flip"}, {"none", "crop-flip"}, {"squeeze", "none"}}) {
    const std::string run = fit + "/checkpoints";
    const ProcessResult trained = millrace(
        {"train",     shard,        "--val",  shard,         "--run-dir", dir / fit,      "--model",
         "lenet",     "--channels", "3",      "--size",      "16",        "--fit",        fit,
         "--augment", augment,      "--json", "--precision", "fp32",      "--batch-size", "8"});
    ASSERT_EQ(trained.status, 0) << trained.err;
    const auto events = json_lines(trained.out);
    const double loss = events[events.size() - 2]["val_loss"];
    EXPECT_NEAR(loss_of(run), loss, 1e-6) << fit;
    forget_fit(dir / (run + "/last"));
    // The way of before, where it was another.
    const bool as_before = fit != "cover";
    EXPECT_EQ(std::abs(loss_of(run) - loss) < 1e-6, as_before) << fit;
    losses.insert(loss);
  }
  EXPECT_EQ(losses.size(), 3U);
}

TEST(TrainFit, AResumedRunKeepsItsWay) {
  const TempDir dir;
  const std::string shards = make_set(dir, 16, 16);
  const auto train = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words = {"train", shards,       "--run-dir", dir / "run", "--model",
                                      "lenet", "--channels", "3",         "--size",    "20"};
    words.insert(words.end(), more.begin(), more.end());
    return millrace(words);
  };
  ASSERT_EQ(train({"--fit", "squeeze"}).status, 0);
  const ProcessResult result = train({"--resume", "auto", "--epochs", "2"});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("--fit squeeze, as the run has it"));
}

TEST(TrainFit, ACheckpointOfMasksFromBeforeTheySaidHowWasSqueezed) {
  const TempDir dir;
  ASSERT_EQ(millrace({"create", dir / "s-%06d.tar", "--synthetic", "scenes", "--count", "4",
                      "--size", "24x48"})
                .status,
            0);
  const std::string shard = dir / "s-000000.tar";
  const std::vector<std::string> model = {"train",          "--train", shard,         "--model",
                                          "unet(width=16)", "--size",  "32",          "--json",
                                          "--batch-size",   "4",       "--precision", "fp32"};
  for (const std::string fit : {"squeeze", "contain"}) {
    auto words = model;
    words.insert(words.end(), {"--val", shard, "--fit", fit, "--run-dir", dir / fit});
    const ProcessResult trained = millrace(words);
    ASSERT_EQ(trained.status, 0) << trained.err;
    const std::string last = dir / (fit + "/checkpoints/last");
    forget_fit(last);
    const ProcessResult scored =
        millrace({"eval", shard, "--checkpoint", last, "--json", "--precision", "fp32"});
    ASSERT_EQ(scored.status, 0) << scored.err;
    const auto events = json_lines(trained.out);
    const double loss = events[events.size() - 2]["val_loss"];
    EXPECT_EQ(std::abs(json_lines(scored.out).at(0)["val_loss"].get<double>() - loss) < 1e-6,
              fit == "squeeze");
  }
  auto more = model;
  more.insert(more.end(), {"--resume", dir / "squeeze/checkpoints/last", "--epochs", "2",
                           "--run-dir", dir / "more"});
  const ProcessResult resumed = millrace(more);
  EXPECT_EQ(resumed.status, 0) << resumed.err;
  EXPECT_THAT(resumed.err, HasSubstr("--fit squeeze, as the run has it"));
}

TEST(TrainMultilabel, PicturesAreOfMasksAndDepthsOnly) {
  const TempDir dir;
  const std::string shards = make_labelled_set(dir, 8);
  ASSERT_EQ(run("train", kLabelled, {"--train", shards, "--run-dir", dir / "run"}).status, 0);
  const ProcessResult result =
      millrace({"eval", shards, "--checkpoint", dir / "run/checkpoints/last", "--pictures",
                dir / "new/pictures.png"});
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.err, HasSubstr("--pictures"));
  EXPECT_FALSE(std::filesystem::exists(dir / "new"));
}

TEST(TrainMultilabel, AWrongNumberOfLabelsNamesTheSample) {
  const TempDir dir;
  const ProcessResult result = run("train", kLabelled,
                                   {"--train", make_labelled_set(dir, 20), "--classes", "4",
                                    "--run-dir", "none", "--shuffle", "0"});
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, AllOf(HasSubstr("key 000000"), HasSubstr("json")));
}

TEST(TrainMultilabel, AKeyThatIsNotThereIsNamed) {
  const TempDir dir;
  const ProcessResult result =
      run("train", kLabelled,
          {"--train", make_labelled_set(dir, 20), "--label-key", "findings", "--run-dir", "none"});
  EXPECT_NE(result.status, 0);
  EXPECT_THAT(result.err, HasSubstr("findings"));
}

TEST(TrainMaskDepth, LearnsBothHeadsAndDrawsThem) {
  const TempDir dir;
  const std::string shards = make_scene_set(dir, 12, 32);
  const ProcessResult result = millrace({"train",
                                         "--train",
                                         shards,
                                         "--val",
                                         shards,
                                         "--model",
                                         "unet(width=16)",
                                         "--size",
                                         "32",
                                         "--lr",
                                         "0.05",
                                         "--momentum",
                                         "0",
                                         "--batch-size",
                                         "2",
                                         "--json",
                                         "--run-dir",
                                         dir / "run",
                                         "--log-steps",
                                         "1",
                                         "--monitor",
                                         "val_iou",
                                         "--loss-weights",
                                         "1,0.5"});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.err,
              AllOf(HasSubstr("mask and depth"), HasSubstr("iou="), HasSubstr("rmse=")));
  const auto events = json_lines(result.out);
  const auto& last = events[events.size() - 2];
  const double sum =
      last["val_loss.mask"].get<double>() + 0.5 * last["val_loss.depth"].get<double>();
  EXPECT_NEAR(sum, last["val_loss"].get<double>(), 1e-5 * sum);
  EXPECT_LT(events[5]["loss"], events[0]["loss"]);

  const ProcessResult scored = millrace(
      {"eval", shards, "--checkpoint", dir / "run/checkpoints/last", "--json", "--pictures",
       dir / "new/pictures.png", "--num-pictures", "3", "--batch-size", "4"});
  ASSERT_EQ(scored.status, 0) << scored.err;
  EXPECT_NEAR(json_lines(scored.out).at(0)["val_rmse"].get<double>(),
              last["val_rmse"].get<double>(), 1e-3);
  const auto sheet = decode::decode_image(io::Bytes::copy_of(read_file(dir / "new/pictures.png")));
  // Three samples side by side, five pictures each, enlarged three times.
  EXPECT_EQ(sheet.width, 4 + 3 * (5 * 97 - 1 + 4));
  EXPECT_GT(sheet.height, 10 + 96 + 20) << "titles that fit their pictures, and keys";
}

TEST(TrainMaskDepth, AMaskOfOtherValuesNamesItsSample) {
  const TempDir dir;
  const std::string shards = make_scene_set(dir, 4, 32, 255);
  const std::vector<std::string> words = {"--model",       "unet(width=16)", "--size",       "32",
                                          "--train",       shards,           "--batch-size", "2",
                                          "--fast-dev-run"};
  const ProcessResult refused = run("train", words, {});
  EXPECT_EQ(refused.status, 1);
  EXPECT_THAT(refused.err, AllOf(HasSubstr("mask 255"), HasSubstr("key 00000")));
  EXPECT_EQ(run("train", words, {"--mask-value", "255"}).status, 0);
}

TEST(TrainMaskDepth, FakeDataFitsBothHeads) {
  const ProcessResult result =
      millrace({"train", "--model", "unet(width=16)", "--size", "32", "--fake-data", "4",
                "--batch-size", "2", "--fast-dev-run"});
  EXPECT_EQ(result.status, 0) << result.err;
}

TEST(TrainMaskDepth, ASceneWithoutDepthNamesItsSample) {
  const TempDir dir;
  const std::string shards = make_set(dir, 8, 4);
  const ProcessResult result = millrace({"train", "--model", "unet(width=16)", "--size", "32",
                                         "--train", shards, "--batch-size", "2", "--fast-dev-run"});
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, AllOf(HasSubstr("mask.png"), HasSubstr("key 00000")));
}

}  // namespace
}  // namespace millrace::testing
