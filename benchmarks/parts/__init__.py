"""`./dev bench parts`: which pages of a packet are its cover sheet, its part A and its part B?"""
