"""How much was enumerated, said at the end of every run of the tests."""


def pytest_terminal_summary(terminalreporter):
    """Tests note the branches they took with `record_property("branches", n)`; where they are one
    of a product of cases, its size with `record_property("of", n)`."""
    passed = [dict(report.user_properties) for report in terminalreporter.getreports("passed")]
    proofs = [noted for noted in passed if "branches" in noted]
    products = [noted["of"] for noted in proofs if "of" in noted]
    if proofs:
        branches = sum(noted["branches"] for noted in proofs)
        line = f"whole-run laws: {len(proofs):,} cases, {branches:,} branches"
        if products:
            line += (
                f"; {len(products):,} of the {max(products):,} combinations of rule, draft, gamma, "
                "sampling and ending"
            )
        terminalreporter.write_line(line)
