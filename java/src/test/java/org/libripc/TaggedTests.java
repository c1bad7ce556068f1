// SPDX-License-Identifier: Apache-2.0
package org.libripc;

import static org.junit.platform.engine.discovery.DiscoverySelectors.selectPackage;

import java.io.PrintWriter;
import org.junit.platform.launcher.LauncherDiscoveryRequest;
import org.junit.platform.launcher.TagFilter;
import org.junit.platform.launcher.core.LauncherDiscoveryRequestBuilder;
import org.junit.platform.launcher.core.LauncherFactory;
import org.junit.platform.launcher.listeners.SummaryGeneratingListener;
import org.junit.platform.launcher.listeners.TestExecutionSummary;

/**
 * Runs the tests with a tag, where there is no Maven: {@code TaggedTests TAG PACKAGE}. Exit status
 * 0 if there are such tests, and every one has run and passed.
 */
public final class TaggedTests {
  private TaggedTests() {}

  public static void main(String[] arguments) {
    SummaryGeneratingListener listener = new SummaryGeneratingListener();
    LauncherDiscoveryRequest request =
        LauncherDiscoveryRequestBuilder.request()
            .selectors(selectPackage(arguments[1]))
            .filters(TagFilter.includeTags(arguments[0]))
            .build();
    LauncherFactory.create().execute(request, listener);
    TestExecutionSummary summary = listener.getSummary();
    summary.printFailuresTo(new PrintWriter(System.out, true));
    System.out.printf(
        "%s: %d tests found, %d passed, %d failed%n",
        Ripc.bindingName(),
        summary.getTestsFoundCount(),
        summary.getTestsSucceededCount(),
        summary.getTotalFailureCount());
    boolean passed =
        summary.getTestsFoundCount() != 0
            && summary.getTestsSucceededCount() == summary.getTestsFoundCount()
            && summary.getTotalFailureCount() == 0;
    System.exit(passed ? 0 : 1);
  }
}
