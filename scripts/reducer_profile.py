# SPDX-License-Identifier: Apache-2.0
"""What a reducer does, from the samples that Java Flight Recorder takes of it."""
import collections
import json
import subprocess

# A stack's kind is the first one with a word that occurs in one of its frames.
KINDS = {
    "sorted runs are written to disk": ("InMemoryMerger", "OnDiskMerger", "Merger.writeFile"),
    "outputs are fetched": ("reduce.Fetcher", "RipcFetcher", "RemoteFetch", "MapOutput."),
    "outputs are taken and checked in place": ("RipcMergeManager", "InPlaceOutput", "LocalOutput"),
    "the result is written": ("RecordWriter.write",),
    "the last merge reads": ("Merger$MergeQueue", "ReduceContextImpl", "ReduceTask$"),
}
REST = "anything else, such as the task's start"
EVENTS = {"jdk.ExecutionSample": "runs", "jdk.NativeMethodSample": "reads or writes a file"}
# Samples of other native methods do not count: there a thread waits for messages, for instance.
FILES = ("FileDispatcherImpl.", "FileOutputStream.", "FileInputStream.", "RandomAccessFile.")


def java_options(recording):
    """Options for a reducer's JVM, which leaves its recording in this file when it ends."""
    periods = ",".join(f"{event}#period=1ms" for event in EVENTS)
    return f"-XX:StartFlightRecording=filename={recording},settings=profile,dumponexit=true,{periods}"


def kind_of(names):
    """Returns the kind of a stack; its methods are given with the innermost first."""
    for kind, words in KINDS.items():
        if any(word in name for name in names for word in words):
            return kind
    return REST


def samples(recording):
    """Returns {(runs or uses a file, kind): samples}: one per millisecond of a thread, if the machine keeps up."""
    words = ["jfr", "print", "--json", "--stack-depth", "64", "--events", ",".join(EVENTS), str(recording)]
    text = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    found = collections.Counter()
    for event in json.loads(text)["recording"]["events"]:
        frames = (event["values"]["stackTrace"] or {"frames": []})["frames"]
        names = [f"{frame['method']['type']['name'].replace('/', '.')}.{frame['method']['name']}" for frame in frames]
        if names and (event["type"] == "jdk.ExecutionSample" or any(word in names[0] for word in FILES)):
            found[EVENTS[event["type"]], kind_of(names)] += 1
    return found
