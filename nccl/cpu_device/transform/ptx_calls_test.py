import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
import ptx_calls

PTX = "::ccld::cpu_device::ptx"


class RewriteTest(unittest.TestCase):
    def rewritten(self, text):
        return ptx_calls.rewrite(text)[0]

    def test_operands_keep_their_order_and_lose_constraints_and_clobbers(self):
        self.assertEqual(self.rewritten('asm volatile("ld.u64 %0, [%1];" : "=l"(x) : "l"(p + f(1, 2)) : "memory");'),
                         PTX + '<"ld.u64 %0, [%1];">(x, p + f(1, 2));')

    def test_a_statement_without_outputs_is_rewritten(self):
        self.assertEqual(self.rewritten('asm("membar.sys;" ::: "memory");'), PTX + '<"membar.sys;">();')

    def test_strings_that_a_macro_puts_together_stay_apart(self):
        text = '#define LOAD(space) \\\n  asm("ld." #space ".b32 %0,[%1];" \\\n  : "="#reg(v) : REG(bits)(a));'
        self.assertEqual(self.rewritten(text),
                         '#define LOAD(space) \\\n  ' + PTX + '<"ld." #space ".b32 %0,[%1];">(v, a)\\\n;')

    def test_every_line_keeps_its_number(self):
        text = 'a;\nasm volatile("x;"\n  : "=r"(a)\n  : "r"(b));\nlast;\n'
        self.assertEqual(text.split("\n").index("last;"), self.rewritten(text).split("\n").index("last;"))

    def test_comments_and_strings_are_left_alone(self):
        for text in ('// asm("x;");\n', '/* asm("x;"); */', 'f("asm(");', "c = '\"'; // asm(",
                     "int n = 1'000'000; /* ' */"):
            self.assertEqual(self.rewritten(text), text)

    def test_names_that_only_contain_asm_are_left_alone(self):
        self.assertEqual(self.rewritten("my_asm(1); asmx(2); plasm (3);"), "my_asm(1); asmx(2); plasm (3);")

    def test_the_templates_found_are_listed_with_spaces_collapsed(self):
        self.assertEqual(ptx_calls.rewrite('asm("a;"\n   " b;" :: "r"(x));')[1], ['"a;" " b;"'])

    def test_an_operand_without_expression_is_an_error_that_names_the_line(self):
        with self.assertRaisesRegex(ptx_calls.TransformError, "line 2: asm operand"):
            ptx_calls.rewrite('\nasm("x %0;" : "=r");')


if __name__ == "__main__":
    unittest.main()
